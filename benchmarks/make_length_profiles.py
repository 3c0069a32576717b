"""Makes the quantile tables of `configs/profiles/` from trace files.

    python benchmarks/make_length_profiles.py [--out FOLDER] NAME=TRACE...

writes FOLDER/NAME.yaml for each trace (any format that servecast reads), with the number of requests, the
quantiles of prompt and output lengths and their rank correlation, and prints how far 200,000 draws from the
table are from the trace. Title, source and licence of the built-in profiles stand below; a trace of your own
gets its file name as source. The built-in tables were made with

    azure-conv-2023=AzureLLMInferenceTrace_conv.csv azure-code-2023=AzureLLMInferenceTrace_code.csv
    sharegpt=sharegpt_8k_filtered_stats_llama2_tokenizer.csv mooncake-conversation=conversation_trace.jsonl
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import numpy.typing as npt

from servecast.configs.length_profiles import FOLDER, read_length_profile
from servecast.configs.traces import TraceData, read_trace
from servecast.model.lengths import rank_correlation

# Every percent, and the tails more finely: the longest 1 % of requests decides the tail of every latency.
PERCENT = (0, 0.1, 0.2, 0.5, *range(1, 100), 99.2, 99.4, 99.6, 99.7, 99.8, 99.9, 99.95, 99.99, 100)

# title, source, licence
ORIGINS = {
    "azure-conv-2023": (
        "Azure OpenAI service, conversations, one hour of November 2023",
        "github.com/Azure/AzurePublicDataset at b469a11, data/AzureLLMInferenceTrace_conv.csv",
        "CC-BY-4.0",
    ),
    "azure-code-2023": (
        "Azure OpenAI service, code completion, one hour of November 2023",
        "github.com/Azure/AzurePublicDataset at b469a11, data/AzureLLMInferenceTrace_code.csv",
        "CC-BY-4.0",
    ),
    "sharegpt": (
        "ShareGPT conversations up to 8192 tokens (Llama-2 tokens);"
        " prompts are much longer than the first turns that `vllm bench serve --dataset-name sharegpt` sends",
        "github.com/microsoft/sarathi-serve at 72339db, data/processed_traces (lengths only)",
        "Apache-2.0 (lengths)",
    ),
    "mooncake-conversation": (
        "Kimi chat service (Mooncake), conversations, one hour; lengths only, without the shared prefixes",
        "github.com/kvcache-ai/Mooncake at 3b5a594, FAST25-release/traces/conversation_trace.jsonl",
        "Apache-2.0",
    ),
}


def main() -> None:
    """Write one YAML file for each NAME=TRACE on the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--out", type=Path, default=FOLDER, help="folder of the YAML files (default: %(default)s)")
    parser.add_argument("traces", nargs="+", metavar="NAME=TRACE")
    arguments = parser.parse_args()
    for pair in arguments.traces:
        name, equals, path = pair.partition("=")
        if not equals:
            parser.error(f"{pair!r} is not NAME=TRACE")
        trace = read_trace(path)
        file = arguments.out / f"{name}.yaml"
        file.write_text(profile_yaml(trace, *ORIGINS.get(name, (name, Path(path).name, "not stated"))))
        print_comparison(file, trace)


def profile_yaml(trace: TraceData, title: str, source: str, licence: str) -> str:
    """The profile of `trace` as YAML text."""
    correlation = rank_correlation(trace.prompt_tokens, trace.output_tokens)
    lines = [
        "# Made by benchmarks/make_length_profiles.py",
        f'title: "{title}"',
        f'source: "{source}"',
        f'licence: "{licence}"',
        f"requests: {len(trace)}",
        f"rank_correlation: {correlation:.4f} # Spearman, prompt with output",
    ]
    for column, tokens in (("prompt", trace.prompt_tokens), ("output", trace.output_tokens)):
        values = np.quantile(tokens, np.array(PERCENT) / 100)
        lines += [f"{column}: # mean of the trace: {tokens.mean():.2f} tokens", "  distribution: histogram"]
        lines += _list("probabilities", [f"{percent / 100:.6g}" for percent in PERCENT])
        lines += _list("tokens", [f"{value:.6g}" for value in values])
    return "\n".join(lines) + "\n"


def _list(key: str, numbers: list[str]) -> list[str]:
    """A YAML list in rows of 20."""
    rows = [", ".join(numbers[i : i + 20]) for i in range(0, len(numbers), 20)]
    return [f"  {key}: [", *(f"    {row}," for row in rows), "  ]"]


def print_comparison(file: Path, trace: TraceData) -> None:
    """Mean and percentiles of the trace and of draws from the profile, to stdout."""
    rngs = np.random.default_rng(0), np.random.default_rng(1)
    prompt, output = read_length_profile(file).lengths.draw(200_000, *rngs)
    print(file.name)
    for column, real, drawn in (
        ("prompt", trace.prompt_tokens, prompt),
        ("output", trace.output_tokens, output),
    ):
        print(f"  {column}: {_statistics(real)} in the trace, {_statistics(drawn)} drawn")
    real_rho, drawn_rho = (
        rank_correlation(trace.prompt_tokens, trace.output_tokens),
        rank_correlation(prompt, output),
    )
    print(f"  rank correlation: {real_rho:.3f} in the trace, {drawn_rho:.3f} drawn")


def _statistics(tokens: npt.NDArray[np.int64]) -> str:
    p50, p90, p99 = np.percentile(tokens, (50, 90, 99))
    return f"mean {tokens.mean():.1f}, p50 {p50:.0f}, p90 {p90:.0f}, p99 {p99:.0f}"


if __name__ == "__main__":
    main()
