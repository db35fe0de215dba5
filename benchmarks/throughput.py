"""Text training: tokens a CPU-second of the packed encoder against sentence-transformers' own trainer.

    pip install sentence-transformers datasets accelerate
    python benchmarks/throughput.py [--texts SRC] [--pairs 128] [--rounds 5] [--steps 6]

Both train the same BERT (4 layers, 256 wide, 4 heads, 1024 inner, 30,522 word pieces, no dropout) from the
same weights on the same pairs of texts of one scene, with the same loss (MultipleNegativesRankingLoss:
cosine, scale 20), fused AdamW and gradients clipped at 1, in float32 on one thread. Padding does not count
as tokens. A step is everything the trainer does for a batch; ours reads tokens that were made once before,
as `coview train` does, while sentence-transformers tokenises as it goes (about 1 % of its step).

SRC is anything `coview train` takes, with at least two texts a scene. Prints one JSON document with every
round's ratio. Target: a median of at least 2 at 128 pairs; below 1.6 the script ends with exit code 5.
"""

import argparse
import importlib.util
import json
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from rounds import interleaved, run_worker, spread

from coview.errors import CheckFailed, CoviewError, InputError, MissingError

GATE = 1.6
WARM_UP = 2  # steps that are not timed
SCALE = 20.0
LEARNING_RATE = 2e-4
SHAPE = {
    "vocab_size": 30522,
    "hidden_size": 256,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "intermediate_size": 1024,
    "max_position_embeddings": 64,
    "hidden_dropout_prob": 0.0,
    "attention_probs_dropout_prob": 0.0,
}


def prepare(folder: Path, texts: str, pairs: int) -> dict:
    """Write what both sides share: pairs of texts, a tokenizer, and a BERT with random weights."""
    from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

    from coview.data.readers import open_source
    from coview.data.tokens import train_tokenizer

    scenes = [scene.texts for scene in open_source(texts).scenes("train") if len(scene.texts) > 1]
    if not scenes:
        raise InputError("no training scene has two texts.", where=texts)
    rng = np.random.default_rng(0)
    drawn = [scenes[index] for index in rng.permutation(np.arange(pairs) % len(scenes))]
    chosen = [
        [str(text) for text in rng.choice(texts_of_scene, 2, replace=False)] for texts_of_scene in drawn
    ]
    (folder / "pairs.json").write_text(json.dumps(chosen), encoding="utf-8")

    tokenizer = train_tokenizer(
        lambda: (text for texts_of_scene in scenes for text in texts_of_scene), SHAPE["vocab_size"]
    )
    names = {f"{name}_token": f"[{name.upper()}]" for name in ("pad", "unk", "cls", "sep", "mask")}
    wrapped = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, model_max_length=SHAPE["max_position_embeddings"], **names
    )
    wrapped.save_pretrained(folder / "bert")
    torch.manual_seed(0)
    BertModel(BertConfig(**SHAPE, pad_token_id=0)).save_pretrained(folder / "bert")

    lengths = [
        len(encoding.ids) for encoding in tokenizer.encode_batch([text for pair in chosen for text in pair])
    ]
    return {"word_pieces": tokenizer.get_vocab_size(), "mean_tokens": float(np.mean(lengths))}


def packed_encoder(folder: Path):
    """Our encoder with the weights of the shared BERT."""
    from transformers import BertModel

    from coview.encoders.text import TextEncoder, TextEncoderConfig

    config = TextEncoderConfig(
        vocabulary=SHAPE["vocab_size"],
        layers=SHAPE["num_hidden_layers"],
        width=SHAPE["hidden_size"],
        heads=SHAPE["num_attention_heads"],
        max_length=SHAPE["max_position_embeddings"],
    )
    model = TextEncoder(config)
    weights = BertModel.from_pretrained(folder / "bert").state_dict()
    ours = {name: weights[name] for name in model.state_dict() if not name.startswith("head.")}
    model.load_state_dict(ours, strict=False)  # the linear map after pooling is not used here
    return model


def token_columns(folder: Path) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Token ids of the first and of the second text of every pair."""
    from coview.data.tokens import encode, load_tokenizer

    tokenizer = load_tokenizer(folder / "bert" / "tokenizer.json")
    first, second = zip(*json.loads((folder / "pairs.json").read_text(encoding="utf-8")), strict=True)
    longest = SHAPE["max_position_embeddings"]
    return encode(tokenizer, list(first), longest)[0], encode(tokenizer, list(second), longest)[0]


def ranking_loss(model, tokens) -> torch.Tensor:
    first, second = F.normalize(model.pool(model(tokens), tokens), dim=-1).chunk(2)
    return F.cross_entropy(SCALE * first @ second.T, torch.arange(len(first)))


def train_packed(folder: Path, pairs: int, steps: int) -> dict:
    from coview.encoders.text import pack

    model = packed_encoder(folder)
    first, second = token_columns(folder)
    optimizer = torch.optim.AdamW(model.parameters(), lr=LEARNING_RATE, weight_decay=0.0, fused=True)
    marks, read, losses = [], [], []
    for step in range(WARM_UP + steps):
        batch = slice(step * pairs, (step + 1) * pairs)
        tokens = pack([*first[batch], *second[batch]])
        loss = ranking_loss(model, tokens)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        marks.append(time.process_time())
        read.append(len(tokens.ids))
        losses.append(loss.item())
    return summary(marks, read, losses)


def sentence_transformer(folder: Path):
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.models import Pooling, Transformer

    transformer = Transformer(str(folder / "bert"), max_seq_length=SHAPE["max_position_embeddings"])
    return SentenceTransformer(modules=[transformer, Pooling(SHAPE["hidden_size"], "mean")], device="cpu")


def peer_loss(model):
    from sentence_transformers.losses import MultipleNegativesRankingLoss

    return MultipleNegativesRankingLoss(model, scale=SCALE)


def train_sentence_transformers(folder: Path, pairs: int, steps: int) -> dict:
    from datasets import Dataset
    from sentence_transformers import SentenceTransformerTrainer, SentenceTransformerTrainingArguments
    from transformers import TrainerCallback

    marks, read, losses = [], [], []

    class Clock(TrainerCallback):
        def on_step_end(self, args, state, control, **kwargs):
            marks.append(time.process_time())

    class Counting(torch.nn.Module):
        """The loss, noting how many tokens of each batch are not padding."""

        def __init__(self, loss):
            super().__init__()
            self.loss, self.model = loss, loss.model

        def forward(self, columns, labels):
            read.append(sum(int(column["attention_mask"].sum()) for column in columns))
            loss = self.loss(columns, labels)
            losses.append(loss.item())
            return loss

    model = sentence_transformer(folder)
    first, second = zip(*json.loads((folder / "pairs.json").read_text(encoding="utf-8")), strict=True)
    arguments = SentenceTransformerTrainingArguments(
        output_dir=str(folder / "peer"),
        per_device_train_batch_size=pairs,
        max_steps=WARM_UP + steps,
        learning_rate=LEARNING_RATE,
        lr_scheduler_type="constant",
        max_grad_norm=1.0,
        use_cpu=True,
        report_to="none",
        save_strategy="no",
        logging_strategy="no",
        disable_tqdm=True,
        dataloader_drop_last=True,
    )
    trainer = SentenceTransformerTrainer(
        model=model,
        args=arguments,
        train_dataset=Dataset.from_dict({"anchor": list(first), "positive": list(second)}),
        loss=Counting(peer_loss(model)),
        callbacks=[Clock()],
    )
    trainer.train()
    return summary(marks, read, losses) | {"optimizer": str(arguments.optim)}


def summary(marks: list[float], read: list[int], losses: list[float]) -> dict:
    """Tokens a CPU-second over the steps after the warm-up, and of the best single step."""
    seconds, tokens = np.diff(marks)[WARM_UP - 1 :], np.array(read[WARM_UP:])
    return {
        "tokens_per_cpu_second": float(tokens.sum() / seconds.sum()),
        "best_step": float((tokens / seconds).max()),
        "tokens_per_step": float(tokens.mean()),
        "losses": [round(loss, 4) for loss in losses],
    }


def compare_losses(folder: Path, pairs: int) -> dict:
    """The loss of the first batch on both sides: the same model and the same task, or there is no race."""
    from coview.encoders.text import pack

    first, second = token_columns(folder)
    peer = sentence_transformer(folder).train()
    texts = json.loads((folder / "pairs.json").read_text(encoding="utf-8"))[:pairs]
    columns = [peer.preprocess([pair[side] for pair in texts]) for side in (0, 1)]
    with torch.no_grad():
        ours = ranking_loss(packed_encoder(folder), pack([*first[:pairs], *second[:pairs]])).item()
        theirs = peer_loss(peer)(columns, labels=None).item()
    return {
        "packed": ours,
        "sentence-transformers": theirs,
        "relative_difference": abs(ours - theirs) / theirs,
    }


def require_peers() -> None:
    missing = [
        name
        for name in ("sentence_transformers", "datasets", "accelerate", "transformers")
        if importlib.util.find_spec(name) is None
    ]
    if missing:
        raise MissingError(
            f"the peer needs {', '.join(missing)}.",
            hint="Run: pip install sentence-transformers datasets accelerate",
        )


def run(options: argparse.Namespace) -> None:
    require_peers()
    count = options.pairs * (WARM_UP + options.steps)
    with tempfile.TemporaryDirectory() as name:
        data = prepare(Path(name), options.texts, count)
        arguments = ["--folder", name, "--pairs", str(options.pairs), "--steps", str(options.steps)]
        parity = run_worker(__file__, "compare", arguments)
        rounds = interleaved(__file__, ["sentence-transformers", "packed"], arguments, options.rounds)

    def ratio(what: str) -> dict[str, float]:
        return spread([each["packed"][what] / each["sentence-transformers"][what] for each in rounds])

    document = {
        "schema": "coview.benchmark.throughput/1",
        "torch": torch.__version__,
        "texts": options.texts,
        "pairs": options.pairs,
        "data": data,
        "first_loss": parity,
        "ratio": ratio("tokens_per_cpu_second"),
        "ratio_of_best_steps": ratio("best_step"),
        "rounds": rounds,
    }
    print(json.dumps(document, indent=2))
    if document["ratio"]["median"] < GATE:
        raise CheckFailed(f"the median ratio {document['ratio']['median']:.2f} is below {GATE}.")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--texts", default="tabletop:scenes=2000", metavar="SRC")
    parser.add_argument("--pairs", type=int, default=128)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument(
        "--worker", choices=["packed", "sentence-transformers", "compare"], help=argparse.SUPPRESS
    )
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    torch.set_num_threads(1)
    try:
        if options.worker == "packed":
            print(json.dumps(train_packed(options.folder, options.pairs, options.steps)))
        elif options.worker == "sentence-transformers":
            print(json.dumps(train_sentence_transformers(options.folder, options.pairs, options.steps)))
        elif options.worker == "compare":
            print(json.dumps(compare_losses(options.folder, options.pairs)))
        else:
            run(options)
    except CoviewError as error:
        print(error, file=sys.stderr)
        raise SystemExit(error.exit_code) from None


if __name__ == "__main__":
    main()
