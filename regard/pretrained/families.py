"""All families, by their model_type."""

from __future__ import annotations

from regard.pretrained.bert import BERT, DISTILBERT, ROBERTA
from regard.pretrained.family import Family
from regard.pretrained.gpt2 import GPT2
from regard.pretrained.gpt_neox import GPT_NEOX
from regard.pretrained.llama import LLAMA, MISTRAL, QWEN2, QWEN3
from regard.pretrained.mixtral import MIXTRAL
from regard.pretrained.swin import SWIN
from regard.pretrained.vit import DEIT, DINOV2, DINOV2_WITH_REGISTERS, VIT

FAMILIES: dict[str, Family] = {
    family.model_type: family
    for family in (
        *(GPT2, LLAMA, MISTRAL, QWEN2, QWEN3, GPT_NEOX, MIXTRAL),
        *(BERT, ROBERTA, DISTILBERT),
        *(VIT, DEIT, DINOV2, DINOV2_WITH_REGISTERS, SWIN),
    )
}
