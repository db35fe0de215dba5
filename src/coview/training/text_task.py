"""The three text arms: good views, bad views, next-token.

They differ in `draw_views` and in the loss; the encoder, the batches and the texts are the same.
"""

import torch
from torch import Tensor

from coview.config import TrainConfig
from coview.data.tokens import TokenStore
from coview.data.views import draw_views, usable_scenes
from coview.encoders.text import PackedTokens, TextEncoder, TextEncoderConfig, pack
from coview.errors import InputError
from coview.training.objectives import next_token
from coview.training.task import WHITENING_SCENES, Outcome, autocast, check_sizes, jepa_loss, whiten


class TextTask:
    """One of the three text arms on a token store."""

    def __init__(self, config: TrainConfig, store: TokenStore, device: torch.device):
        self.config, self.store, self.device = config, store, device
        self.data_hash = store.meta["hash"]
        counts = store.texts_per_scene()
        self.scenes = usable_scenes(counts, config.views, config.views_per_scene)
        if not len(self.scenes):
            raise InputError(
                f"no scene has {config.views_per_scene} texts (most: {counts.max()}), "
                f"which views {config.views!r} need.",
                where=str(store.meta.get("source", "")),
                hint="Give more texts a scene, lower --views-per-scene, or train with --views bad.",
            )
        self.fewest = int(counts[self.scenes].min())
        torch.manual_seed(config.seed)  # initial weights only; nothing after this draws from it
        shape = TextEncoderConfig.of_size(
            config.size, store.meta["vocabulary"], max_length=config.max_length, output=config.output
        )
        check_sizes(config, scenes=len(self.scenes), width=shape.width)
        self.model = TextEncoder(shape).to(device)
        self.causal = config.views == "next-token"

    def tokens(self, step: int, *, unmasked: bool = False) -> PackedTokens:
        """The texts of one step; with `unmasked` as many as every scene has, none of them masked."""
        config = self.config
        texts = draw_views(
            self.store,
            self.scenes,
            "good" if unmasked else config.views,
            views=min(config.views_per_scene, self.fewest) if unmasked else config.views_per_scene,
            batch=config.batch,
            seed=config.seed,
            step=step,
            mask_rate=config.mask_rate,
        )
        return pack(texts).to(self.device)

    def step(self, step: int) -> Outcome:
        config, tokens = self.config, self.tokens(step)
        with autocast(config, self.device):
            hidden = self.model(tokens, causal=self.causal)
        if self.causal:
            seen, targets = shifted(tokens)
            with autocast(config, self.device):
                words = self.model.embeddings.word_embeddings.weight  # the head is tied
                return Outcome(next_token(hidden[seen], words, targets), len(tokens.ids))
        pooled = self.model.pool(hidden.float(), tokens)
        z = self.model.head(pooled).view(config.views_per_scene, config.batch, -1)
        return Outcome(jepa_loss(z, config, step), len(tokens.ids), z)

    def prepare(self) -> None:
        """Whiten the first embeddings, so that SIGReg starts near its floor.

        From any other start the directions of largest variance grow first and the embeddings pass through a
        collapse to a handful of dimensions, from which they recover slowly.
        """
        if not self.causal:
            whiten(self.model.head, self._sample())

    def finish(self) -> None:
        """Next-token embeddings are defined up to an invertible map: report them whitened as well."""
        if self.causal:
            whiten(self.model.head, self._sample())

    @torch.no_grad()
    def _sample(self) -> Tensor:
        """Pooled embeddings of unmasked training texts, shape (texts, width)."""
        steps = -(-WHITENING_SCENES // self.config.batch)
        batches = [self.tokens(step, unmasked=True) for step in range(steps)]
        return torch.cat(
            [self.model.pool(self.model(tokens, causal=self.causal), tokens) for tokens in batches]
        )


def shifted(tokens: PackedTokens) -> tuple[Tensor, Tensor]:
    """Indices of the tokens that have a next token in their text, and those next tokens."""
    lengths = torch.cat([torch.full((count,), length) for count, length in tokens.groups])
    last = torch.zeros(len(tokens.ids), dtype=torch.bool)
    last[lengths.cumsum(0) - 1] = True
    seen = (~last).nonzero().squeeze(1).to(tokens.ids.device)
    return seen, tokens.ids[seen + 1]
