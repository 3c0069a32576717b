"""The engine's profile run: how far PyTorch's memory rises above the weights when the largest batch runs.

Two peaks compete: the widest layer of the forward pass, and the sampler over the logits of the last stage.
What stays allocated throughout adds to either. All sizes in bytes on one GPU; "u" below is one 16-bit hidden
state of every token of the batch. Source: vLLM 0.19.0, profile run, sampler, fused-MoE workspace, multimodal
budget; docs/memory.md.
"""

from __future__ import annotations

from dataclasses import dataclass

from servecast.hardware.gpus import Gpu
from servecast.hardware.memory_rules import MemoryRules
from servecast.model.architecture import Architecture, DenseMlp, LatentAttention, Layer, MoeMlp
from servecast.model.layout import ReplicaLayout, effective_max_model_len, stage_layers
from servecast.model.weights import MIB, effective_quantization

# Most context tokens whose K and V MLA expands at once while a prompt is computed in chunks.
LATENT_CONTEXT_TOKENS = 65_536


@dataclass(frozen=True)
class ProfileRun:
    """tokens: of the batch. rows: sequences that sample a token. Everything else as in `plan_memory`."""

    architecture: Architecture
    gpu: Gpu
    rules: MemoryRules
    layout: ReplicaLayout
    tokens: int
    rows: int

    def peak_bytes(self, stage: int) -> int:
        """Peak on each GPU of pipeline stage `stage` (from 0)."""
        stages = self.layout.pipeline_parallel_size
        layers = set(stage_layers(self.architecture, stages, stage))
        peaks = [self._layer_bytes(layer) for layer in layers]
        if stage == stages - 1:
            peaks.append(self._sampler_bytes())
        return int(self._kept_bytes(layers, stage) + max(peaks))

    @property
    def _state_bytes(self) -> int:
        return 2 * self.tokens * self.architecture.hidden_size

    def _kept_bytes(self, layers: set[Layer], stage: int) -> float:
        """The matrix library's workspace, the experts', what passes between stages (2u), the images."""
        kept = self.rules.blas_workspace_for(self.gpu) * MIB
        if self.rules.moe_workspace and self._weights_dtype() != "mxfp4":
            # The mxfp4 kernel allocates for itself, and frees again.
            kept += max(self._expert_workspace_bytes(layer) for layer in layers)
        if self.layout.pipeline_parallel_size > 1:
            kept += 2 * self._state_bytes
        if stage == 0:
            kept += self._image_bytes()
        return kept

    def _weights_dtype(self) -> str | None:
        quantization = effective_quantization(self.architecture, self.layout.dtype)
        return None if quantization is None else quantization.dtype

    def _expert_workspace_bytes(self, layer: Layer) -> int:
        """Two buffers with a row for each token and expert chosen: for gate and up, and for their product.

        Neither is narrower than a hidden state, as the experts' outputs go there too.
        """
        if not isinstance(layer.mlp, MoeMlp):
            return 0
        shares = 1 if self.layout.enable_expert_parallel else self.layout.tensor_parallel_size
        columns = layer.mlp.expert_intermediate_size // shares
        hidden = self.architecture.hidden_size
        widths = max(2 * columns, hidden) + max(columns, hidden)
        return 2 * self.tokens * layer.mlp.experts_per_token * widths

    def _image_bytes(self) -> int:
        """As many of the largest images as the token budget holds: their pixels, the tokens made of them."""
        vision = self.architecture.vision
        if vision is None:
            return 0
        images = max(1, self.tokens // vision.item_tokens)
        made = vision.item_tokens * self.architecture.hidden_size
        return 2 * images * (vision.item_values + made) + vision.table_bytes

    def _sampler_bytes(self) -> float:
        """The batch's last states (u), those of the sampled rows twice, and the logits in several forms."""
        vocabulary = self.architecture.vocab_size
        states = self._state_bytes + 2 * 2 * self.rows * self.architecture.hidden_size
        logits = self.rows * vocabulary * self.rules.sampler_bytes_per_logit
        buffer_rows = min(self.rows, self.gpu.sm_count)
        return states + logits + buffer_rows * vocabulary * self.rules.sampler_buffer_bytes_per_logit

    def _layer_bytes(self, layer: Layer) -> float:
        """Attention output, residual before and after (3u), the widest tensors, the timing buffer."""
        widest = max(self._mlp_bytes(layer), self._latent_bytes(layer))
        flush = self.gpu.l2_mb * MIB if self.rules.autotune_flush else 0
        return 3 * self._state_bytes + widest + flush

    def _mlp_bytes(self, layer: Layer) -> int:
        """Input and output of the activation function; with int8 also the rounded MLP input and product.

        Of a mixture of experts only the shared experts, as the routed ones have their workspace.
        """
        mlp = layer.mlp
        width = mlp.intermediate_size if isinstance(mlp, DenseMlp) else mlp.shared_intermediate_size
        columns = width // self.layout.tensor_parallel_size
        size = 2 * self.tokens * columns * (3 if mlp.gated else 2)
        if self._weights_dtype() == "int8":
            size += self.tokens * (columns + self.architecture.hidden_size)
        return size

    def _latent_bytes(self, layer: Layer) -> int:
        """K and V that MLA expands from the latent of earlier chunks, at the most it allows itself."""
        attention = layer.attention
        if not isinstance(attention, LatentAttention):
            return 0
        length = effective_max_model_len(self.architecture, self.layout)
        wanted = max(8 * length, 4 * self.rows * self.layout.block_size)
        heads = attention.num_heads // self.layout.tensor_parallel_size
        width = heads * (attention.nope_head_dim + attention.v_head_dim)
        return 2 * min(wanted, LATENT_CONTEXT_TOKENS) * width
