"""From what `--speculate` and `--draft` say to what proposes drafts."""

from engine.attend import Reading
from engine.drafts import Drafter
from engine.early_exit import EarlyExitDrafts
from engine.histories import Histories
from engine.model import LlamaModel
from engine.ngram import NgramDrafts
from engine.physical import Pool
from engine.sampling import Chooser
from sim.config import Config
from sim.errors import InputError, unknown_name

DRAFTS = ("ngram", "early-exit")  # the first is what proposes where nothing else is said


def make_drafter(
    draft: str | None,
    draft_layers: int | None,
    config: Config,
    model: LlamaModel,
    pool: Pool,
    *,
    histories: Histories,
    chooser: Chooser,
    reading: Reading,
) -> Drafter | None:
    """None without speculation. `draft_layers` None: half of the model's. InputError for what contradicts."""
    num_layers = model.spec.num_layers
    refuse_drafts(draft, draft_layers, config, num_layers)
    if not config.speculate:
        return None
    if draft != "early-exit":
        return NgramDrafts(histories)
    layers = draft_layers or max(1, num_layers // 2)
    return EarlyExitDrafts(model, layers, pool, histories=histories, chooser=chooser, reading=reading)


def refuse_drafts(draft: str | None, draft_layers: int | None, config: Config, num_layers: int) -> None:
    """Raises InputError for settings that contradict one another or the model."""
    if draft is not None and draft not in DRAFTS:
        raise unknown_name("draft", draft, DRAFTS)
    if (draft or draft_layers is not None) and not config.speculate:
        given = f"--draft {draft}" if draft else f"--draft-layers {draft_layers}"
        raise InputError(f"{given} without --speculate: nothing asks for drafts; add --speculate 4")
    if draft_layers is not None and draft != "early-exit":
        raise InputError(f"--draft-layers {draft_layers} without --draft early-exit: no layers draft; add it")
    if draft_layers is not None and not 1 <= draft_layers < num_layers:
        raise InputError(
            f"--draft-layers {draft_layers}: of the model's {num_layers} at least 1, and fewer than all"
        )
    if config.accept is not None:
        raise InputError(
            f"--accept {config.accept:g} with a text: how many drafts hold is measured here, not set; drop it"
        )
