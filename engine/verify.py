"""What a step emits that verified drafts: those that hold, and one token of the model's own after them."""

import torch
from torch import Tensor

from engine.drafts import Draft
from engine.sampling import Chooser, Place, Sampling, uniform


def verify(chooser: Chooser, logits: Tensor, draft: Draft, first: Place, most: int) -> list[int]:
    """The tokens that come out: drafts that hold, `most` at most, and one more.

    `logits` [drafts + 1, vocab] are the whole model's; `first` is where the first draft would stand.
    """
    if isinstance(chooser, Sampling):
        return sampled(chooser, logits, draft, first, most)
    return confirmed(logits, draft.tokens, most)


def confirmed(logits: Tensor, drafts: list[int], most: int) -> list[int]:
    """Greedily: a draft holds when the model would have said it, so the text is that of no drafts at all."""
    said = torch.argmax(logits, dim=-1).tolist()
    num_right = next((i for i, draft in enumerate(drafts[:most]) if draft != said[i]), min(len(drafts), most))
    return said[: num_right + 1]


def sampled(chooser: Sampling, logits: Tensor, draft: Draft, first: Place, most: int) -> list[int]:
    """By rejection, so that tokens have the model's own distribution p whatever the drafts' q is.

    A draft x is kept with chance min(1, p(x) / q(x)); the first that is not is replaced by a draw from what p
    has over q, and after the last a draw from p follows (Leviathan et al., arXiv 2211.17192, section 2.3).
    A draft that was not drawn has q(x) = 1.
    """
    target = chooser.distribution(logits)
    emitted: list[int] = []
    for index, token in enumerate(draft.tokens[:most]):
        place, p = first._replace(position=first.position + index), target[index]
        q = torch.zeros_like(p) if draft.probabilities is None else draft.probabilities[index].clone()
        if draft.probabilities is None:
            q[token] = 1.0
        if uniform(chooser.seed, place, "accept") * float(q[token]) >= float(p[token]):
            rest = (p - q).clamp(min=0.0)
            return emitted + chooser.draw(rest.unsqueeze(0), [place], "instead")
        emitted.append(token)
    last = first._replace(position=first.position + len(emitted))
    return emitted + chooser.draw(target[len(emitted)].unsqueeze(0), [last])
