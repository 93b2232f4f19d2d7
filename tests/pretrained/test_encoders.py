"""BERT and its relatives: the same outputs both ways, with padding and token types, and the same weights."""

import pytest
import torch

from regard.pretrained.hugging_face import read_directory
from tests.pretrained.theirs import check_round_trip, save_random

pytest.importorskip("transformers")

IDS = torch.randint(2, 29, (3, 12), generator=torch.Generator().manual_seed(1))
REAL = torch.arange(12) < torch.tensor([12, 7, 1])[:, None]
SIZES = {
    "vocab_size": 29,
    "hidden_size": 24,
    "intermediate_size": 40,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "max_position_embeddings": 20,
}
DISTILBERT = {"vocab_size": 29, "dim": 24, "hidden_dim": 40, "n_layers": 2, "n_heads": 4, "max_position_embeddings": 20}
OTHER = {"hidden_act": "gelu_new", "layer_norm_eps": 1e-3, "type_vocab_size": 3}
CASES = {
    "bert": ("BertForMaskedLM", SIZES),
    "bert with other options": ("BertForMaskedLM", SIZES | OTHER),
    "bert classifier": ("BertForSequenceClassification", SIZES | {"num_labels": 5}),
    "bert body": ("BertModel", SIZES | OTHER),
    "roberta": ("RobertaForMaskedLM", SIZES),
    "roberta classifier": ("RobertaForSequenceClassification", SIZES | {"num_labels": 3}),
    "roberta body": ("RobertaModel", SIZES | {"type_vocab_size": 1}),
    "distilbert": ("DistilBertForMaskedLM", DISTILBERT | {"activation": "relu"}),
    "distilbert classifier": ("DistilBertForSequenceClassification", DISTILBERT | {"num_labels": 4}),
    "distilbert body": ("DistilBertModel", DISTILBERT),
}


@pytest.fixture(scope="module", params=list(CASES))
def pair(request, tmp_path_factory):
    name, options = CASES[request.param]
    folder = tmp_path_factory.mktemp("theirs")
    return save_random(name, options, folder), read_directory(folder), folder


def outputs(model, **more):
    ids = IDS.masked_fill(~REAL, getattr(model.config, "pad_token_id", 0) or 0)
    with torch.no_grad():
        return model(ids, attention_mask=REAL.long(), **more)


def test_outputs_are_theirs(pair):
    model, found, _ = pair
    theirs = outputs(model)[0]
    ours = found.build()
    with torch.no_grad():
        result = ours(IDS, real=REAL)
    if found.predicts != "classes":
        theirs, result = theirs[REAL], result[REAL]
    torch.testing.assert_close(result, theirs, rtol=1e-5, atol=1e-5)
    assert theirs.std() > 0.05


def test_token_types_and_pool_are_theirs(pair):
    model, found, _ = pair
    ours = found.build()
    types = (IDS % 2) * REAL
    if found.config.token_types > 1:
        theirs = outputs(model, token_type_ids=types)[0]
        with torch.no_grad():
            result = ours(IDS, real=REAL, token_types=types)
        if found.predicts != "classes":
            theirs, result = theirs[REAL], result[REAL]
        torch.testing.assert_close(result, theirs, rtol=1e-5, atol=1e-5)
    if found.predicts == "features" and ours.pool is not None:
        with torch.no_grad():
            pooled = ours.pooled(IDS, real=REAL)
        torch.testing.assert_close(pooled, outputs(model).pooler_output, rtol=1e-5, atol=1e-5)


def test_it_goes_back_equal_to_the_bit(pair, tmp_path):
    model, found, folder = pair
    again = check_round_trip(found, folder, tmp_path)
    torch.testing.assert_close(outputs(again)[0], outputs(model)[0], rtol=1e-6, atol=1e-6)
