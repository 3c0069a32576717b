"""Traces as they come: each format, and each oddity with the rule that handles it."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest

from servecast.configs.trace_columns import FORMATS
from servecast.configs.traces import TraceData, read_trace
from servecast.hardware.errors import ConfigError
from servecast.model.arrivals import PoissonArrivals
from servecast.model.workload import WorkloadParameters, draw_workload

ODD = Path(__file__).parent / "odd_traces"
PLAIN_HEADER = "arrival_s,input_tokens,output_tokens\n"


def times(trace: TraceData) -> list[float]:
    assert trace.arrival_s is not None
    return trace.arrival_s.tolist()  # type: ignore[no-any-return] # numpy's stub


def written(folder: Path, text: str, name: str = "trace.csv") -> Path:
    file = folder / name
    file.write_text(text)
    return file


def test_azure_times_keep_seven_digits_over_midnight_and_the_last_line_needs_no_newline() -> None:
    trace = read_trace(ODD / "azure_crlf_7_digits.csv")
    assert trace.format == "azure"
    assert times(trace) == pytest.approx([0.0, 0.5000001, 3.0], abs=1e-9)
    assert trace.prompt_tokens.tolist() == [100, 200, 300]
    assert trace.output_tokens.tolist() == [10, 20, 30]
    assert trace.notes == ()


def test_zones_are_honoured() -> None:
    trace = read_trace(ODD / "azure_zones.csv")
    assert times(trace) == pytest.approx([0.0, 0.25, 0.5])
    assert trace.prompt_tokens.tolist() == [2, 1, 3]


def test_times_with_and_without_a_zone_are_told_apart(tmp_path: Path) -> None:
    rows = "2024-01-01 01:00:00+01:00,1,1\n2024-01-01T00:00:01,2,2\n"
    trace = read_trace(written(tmp_path, PLAIN_HEADER + rows))
    assert times(trace) == [0.0, 1.0]
    assert trace.notes == ("times without a zone are read as UTC, beside others with a zone",)


def test_rows_out_of_order_are_sorted_and_equal_times_keep_the_order_of_the_file() -> None:
    trace = read_trace(ODD / "unsorted.csv")
    assert times(trace) == [0.0, 0.0, 4.0]
    assert trace.prompt_tokens.tolist() == [200, 300, 100]
    assert trace.notes == (
        "times are counted from the first request, 1 s in the file",
        "2 rows out of order: the trace is sorted by arrival",
        "1 request at the same time as the one before: kept, in the order of the file",
    )


def test_bad_rows_are_an_error_that_names_every_line_and_value() -> None:
    with pytest.raises(ConfigError) as caught:
        read_trace(ODD / "bad_rows.csv")
    message = str(caught.value)
    assert "6 of 7 rows cannot be used" in message
    for part in (
        "arrival_s is negative on line 2 (-1.5)",
        "input_tokens is negative on line 3 (-5)",
        "input_tokens is not a whole number on line 4 (100.5)",
        "input_tokens is not a number on line 5 (empty)",
        "arrival_s is neither a number nor an ISO 8601 date and time on line 6 (soon)",
        "2 cells where the header has 3 on line 7",
        "bad_rows: skip",
    ):
        assert part in message


def test_bad_rows_can_be_left_out_with_a_count() -> None:
    trace = read_trace(ODD / "bad_rows.csv", bad_rows="skip")
    assert trace.prompt_tokens.tolist() == [100]  # 100.0, as data frames write whole numbers
    assert trace.notes[0].startswith("6 of 7 rows left out: ")


def test_many_bad_rows_are_counted_not_listed(tmp_path: Path) -> None:
    file = written(tmp_path, PLAIN_HEADER + "0,-1,1\n" * 100 + "0,1,1\n")
    with pytest.raises(ConfigError, match=r"100 of 101 rows .* lines 2 \(-1\), .* 6 \(-1\) and 95 more"):
        read_trace(file)


def test_semicolons_mean_decimal_commas() -> None:
    trace = read_trace(ODD / "semicolons.csv")
    assert times(trace) == [0.0, 0.5]
    assert trace.prompt_tokens.tolist() == [100, 120]
    assert "commas are read as decimal signs" in trace.notes[0]


def test_lengths_only_asks_for_arrivals() -> None:
    trace = read_trace(ODD / "lengths_only.csv")
    assert trace.arrival_s is None
    assert trace.request_rate is None
    assert trace.notes == (
        "has lengths only: none of its columns (num_prefill_tokens, num_decode_tokens) is an arrival time",
    )
    with pytest.raises(ConfigError, match=r"lengths_only.csv: has no arrival times.*request_rate"):
        trace.arrivals()
    params = WorkloadParameters(PoissonArrivals(1.0), trace.lengths())
    assert draw_workload(params, np.random.SeedSequence(0)).output_tokens.tolist() == [37, 64]


def test_burstgpt_failures_count_as_one_output_token() -> None:
    trace = read_trace(ODD / "burstgpt.csv")
    assert trace.format == "burstgpt"
    assert times(trace) == [0.0, 40.0, 40.0]
    assert trace.output_tokens.tolist() == [18, 1, 276]
    assert "1 request with 0 Response tokens: each counts as 1 token" in trace.notes


@pytest.mark.parametrize(("name", "arrivals"), [("splitwise", [0.0, 0.9]), ("vidur", [0.0, 0.5])])
def test_simulator_formats(name: str, arrivals: list[float]) -> None:
    trace = read_trace(ODD / f"{name}.csv")
    assert trace.format.startswith(name)
    assert times(trace) == arrivals


def test_mooncake_has_milliseconds_and_prefix_hashes() -> None:
    trace = read_trace(ODD / "mooncake.jsonl")
    assert times(trace) == [0.0, 0.0, 3.0, 3.5]
    assert trace.hash_block_tokens == 512
    assert trace.hash_ids == ((0, 1), (0, 1), (), ())
    assert trace.notes == (
        "1 request with a wrong number of hash_ids for blocks of 512 tokens, ignored (line 4: 5 for 2)",
        "1 request without hash_ids: taken to share no prefix",
        "1 request at the same time as the one before: kept, in the order of the file",
    )


def test_qwen_bailian_has_seconds_and_blocks_of_16() -> None:
    trace = read_trace(ODD / "qwen_bailian.jsonl")
    assert trace.format == "qwen-bailian"
    assert times(trace) == pytest.approx([0.0, 1.5])
    assert (trace.hash_block_tokens, trace.hash_ids) == (16, ((7, 8, 9), (7, 8)))


def test_a_gateway_log_has_its_tokens_under_usage() -> None:
    trace = read_trace(ODD / "gateway_log.jsonl")
    assert trace.format == "openai-log"
    assert times(trace) == pytest.approx([0.0, 7198.75])
    assert trace.prompt_tokens.tolist() == [90, 812]
    assert trace.output_tokens.tolist() == [1, 43]


def test_epoch_milliseconds_are_known_by_their_size() -> None:
    trace = read_trace(ODD / "epoch_ms.csv")
    assert times(trace) == pytest.approx([0.0, 0.5])
    assert trace.notes[0] == "created is read as ms since 1970, by its size"


def test_times_in_the_wrong_unit_are_hinted_at_and_can_be_corrected(tmp_path: Path) -> None:
    file = written(tmp_path, PLAIN_HEADER + "".join(f"{i}000,500,100\n" for i in range(20)))
    (note,) = read_trace(file).notes
    assert note == ("the times imply 0.001 requests/s (one every 1000 s): if they are ms and not s, say time_unit: ms")
    assert read_trace(file, time_unit="ms").request_rate == pytest.approx(1.0)
    assert read_trace(file, time_unit="ms").notes == ()
    (note,) = read_trace(file, time_unit="ns").notes
    assert note.endswith("if they are us and not ns, say time_unit: us")


def test_a_column_may_name_its_unit(tmp_path: Path) -> None:
    file = written(tmp_path, "arrival_ms,isl,osl\n0,10,1\n1500,20,2\n")
    assert times(read_trace(file)) == [0.0, 1.5]


def test_two_candidates_for_one_column_are_named(tmp_path: Path) -> None:
    file = written(tmp_path, "timestamp,arrival_s,input_tokens,output_tokens\n5,0,10,1\n9,2,20,2\n")
    trace = read_trace(file)
    assert times(trace) == [0.0, 2.0]
    assert trace.notes == ("columns arrival_s, timestamp could all be the arrival; arrival_s is used",)


def test_gzip_is_known_by_content(tmp_path: Path) -> None:
    file = tmp_path / "trace.csv"
    file.write_bytes(gzip.compress((ODD / "vidur.csv").read_bytes()))
    assert times(read_trace(file)) == [0.0, 0.5]


def test_a_byte_order_mark_and_blank_lines_do_not_matter(tmp_path: Path) -> None:
    file = written(tmp_path, "\ufeff" + PLAIN_HEADER + "\n0,1,1\n\n1,2,-2\n")
    with pytest.raises(ConfigError, match=r"1 of 2 rows .* on line 5 \(-2\)"):
        read_trace(file)


def test_replaying_a_trace_gives_a_workload_with_its_rows_and_notes() -> None:
    trace = read_trace(ODD / "unsorted.csv")
    params = WorkloadParameters(trace.arrivals(rate_scale=2.0), trace.lengths(), notes=trace.notes)
    workload = draw_workload(params, np.random.SeedSequence(0))
    assert np.asarray(workload.arrival_s).tolist() == [0.0, 0.0, 2.0]
    assert workload.prompt_tokens.tolist() == [200, 300, 100]
    assert workload.notes == trace.notes


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the file is empty"),
        ("\n\n", "the file is empty"),
        (PLAIN_HEADER, "has a header but no rows"),
        (PLAIN_HEADER + "x,1,1\n", "no row can be used: arrival_s is neither"),
        (
            "TIMESTAMP,ContextTokens\n1,2\n",
            "no column for output tokens .* Found: TIMESTAMP, ContextTokens. Format azure",
        ),
        ("0.0,10,5\n1.0,10,5\n", "Found: 0.0, 10, 5. The first line must name the columns"),
        ("arrival_s,input_tokens,input_tokens,output_tokens\n0,1,1,1\n", "column input_tokens stands twice"),
        (
            "arrival_s,isl,osl\n2023-02-31 00:00:00,1,1\n2023-02-01 00:00:00,1,1\n",
            "line 2 .2023-02-31 00:00:00",
        ),
        ("arrival_s,isl,osl\n0,1,1e12\n1,1,1\n", "osl is above a billion on line 2"),
        ('{"timestamp": 0, "input_length": 5,}\n', "trace.csv:1: broken JSON: .* at column"),
        (
            '{"timestamp": 0, "input_length": 5, "output_length": 1}\n{"ti\n',
            "1 of 2 rows .* broken JSON: .* line 2",
        ),
        ('{"timestamp": 0, "input_length": 5, "output_length": 1}\n7\n', "not a JSON object on line 2"),
        ("[]", "one JSON array; a trace has one JSON object a line"),
        ("PK\x03\x04", "is a zip file; plain text or gzip is read"),
    ],
)
def test_files_that_are_no_trace_get_one_clear_message(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        read_trace(written(tmp_path, text))


def test_damaged_and_missing_files(tmp_path: Path) -> None:
    whole = gzip.compress((ODD / "vidur.csv").read_bytes())
    cut = tmp_path / "cut.gz"
    cut.write_bytes(whole[:-10])
    with pytest.raises(ConfigError, match=r"cut.gz: is a damaged gzip file"):
        read_trace(cut)
    with pytest.raises(ConfigError, match="no such file"):
        read_trace(tmp_path / "absent.csv")
    with pytest.raises(ConfigError, match="is a folder"):
        read_trace(tmp_path)
    utf16 = tmp_path / "utf16.csv"
    utf16.write_bytes(PLAIN_HEADER.encode("utf-16"))
    with pytest.raises(ConfigError, match="is not UTF-8 text"):
        read_trace(utf16)


def test_a_format_may_be_named_and_is_then_required() -> None:
    assert read_trace(ODD / "vidur.csv", "plain").format == "plain"
    with pytest.raises(ConfigError, match=r"format azure has no column timestamp.* Found: arrived_at"):
        read_trace(ODD / "vidur.csv", "azure")
    with pytest.raises(ConfigError, match=r"unknown trace format 'azur'. Did you mean 'azure'"):
        read_trace(ODD / "vidur.csv", "azur")
    with pytest.raises(ConfigError, match="unknown unit 'min'"):
        read_trace(ODD / "vidur.csv", time_unit="min")


@pytest.mark.needs_shared
@pytest.mark.parametrize(
    ("name", "format", "requests", "rate"),
    [
        ("azure_llm_2023_conv.csv.gz", "azure", 19366, 5.530),
        ("azure_llm_2023_code.csv.gz", "azure", 8819, 2.566),
        ("vidur_splitwise_conv.csv.gz", "vidur", 19366, 5.530),
        ("vidur_splitwise_code.csv.gz", "vidur", 8819, 2.566),
        ("mooncake_conversation.jsonl.gz", "mooncake", 12031, 3.401),
        ("mooncake_synthetic.jsonl.gz", "mooncake", 3993, 3.906),
        ("llmservingsim_sharegpt_llama-3.1-8b.csv.gz", "plain", 300, 10.262),
        ("llmservingsim_sharegpt_qwen3-32b.csv.gz", "plain", 300, 10.262),
        ("exgentic_swebench_deepseekv32.csv.gz", "plain", 2294, 0.0054),
        ("sharegpt_8k_lengths.csv.gz", "plain", 30731, None),
        ("arxiv_summarization_lengths.csv.gz", "plain", 28257, None),
        ("cc_traces_weka_sample.csv.gz", "plain", 5000, None),
    ],
)
def test_public_traces(shared_data: Path, name: str, format: str, requests: int, rate: float | None) -> None:
    trace = read_trace(shared_data / "traces" / name)
    assert (trace.format, len(trace)) == (format, requests)
    assert trace.request_rate == (rate if rate is None else pytest.approx(rate, rel=0.01))
    assert min(trace.prompt_tokens.min(), trace.output_tokens.min()) >= 1


@pytest.mark.needs_shared
def test_the_azure_trace_and_its_vidur_copy_agree(shared_data: Path) -> None:
    azure = read_trace(shared_data / "traces" / "azure_llm_2023_conv.csv.gz")
    vidur = read_trace(shared_data / "traces" / "vidur_splitwise_conv.csv.gz")
    assert np.array_equal(azure.prompt_tokens, vidur.prompt_tokens)
    assert np.array_equal(azure.output_tokens, vidur.output_tokens)
    assert times(azure) == pytest.approx(times(vidur), abs=1e-6)


@pytest.mark.needs_shared
@pytest.mark.parametrize(
    ("name", "outcome"),
    [
        ("azure_quirks.csv", [374, 397, 881, 94, 4004]),
        ("azure_zone.csv", [2162, 2399, 76]),
        ("unsorted.csv", [200, 300, 100]),
        ("negative.csv", r"3 of 4 rows .* line 3 .*line 4 .*line 2"),
        ("fractional_tokens.csv", r"line 3 \(100.5\)"),
        ("prompt_over_limit.csv", [126195, 8192, 8191]),
        ("prompt_over_pool.csv", [60000, 60000]),
        ("missing_column.csv", r"no column for output tokens .*Found: TIMESTAMP, ContextTokens"),
        ("lengths_only.csv", [1162, 1500, 800]),
        ("vidur_style.csv", [1162, 1500]),
        ("splitwise_style.csv", [1500, 700]),
        ("mooncake_quirks.jsonl", None),
        ("openai_log.jsonl", [90, 812]),
        ("semicolon.csv", [100, 100]),
        ("empty.csv", "the file is empty"),
        ("ms_not_s.csv", [500] * 20),
    ],
)
def test_odd_traces(shared_data: Path, name: str, outcome: list[int] | str | None) -> None:
    file = shared_data / "fixtures" / f"trace_{name}"
    if isinstance(outcome, str):
        with pytest.raises(ConfigError, match=outcome):
            read_trace(file)
        return
    prompts = read_trace(file).prompt_tokens.tolist()
    assert outcome is None or prompts == outcome


@pytest.mark.needs_shared
def test_no_odd_trace_is_forgotten(shared_data: Path) -> None:
    names = {file.name for file in (shared_data / "fixtures").glob("trace_*")}
    assert len(names) == 16


def test_every_published_format_has_a_trace_above() -> None:
    seen = {read_trace(file, bad_rows="skip").format for file in ODD.iterdir()}
    assert seen >= set(FORMATS)
