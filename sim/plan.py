"""How many tokens each sequence of a group runs in a step, within a budget."""

from sim.alloc import KVAllocator, Short
from sim.request import Sequence, SequenceGroup
from sim.speculate import DraftModel

Plan = list[tuple[Sequence, int]]


def plan_step(group: SequenceGroup, budget: int, drafts: DraftModel) -> Plan:
    """Pending tokens of each active sequence, and drafts where one decodes; empty when none can run."""
    plan = plan_chunks(group, budget)
    if not drafts.num_drafts or len(plan) != 1 or group.active[0].is_prefilling:
        return plan
    sequence, num_tokens = plan[0]
    num_drafts = drafts.propose(sequence, budget)
    if group.num_drafts is not None:
        num_drafts = min(num_drafts, group.num_drafts)
    return [(sequence, num_tokens + num_drafts)]


def plan_chunks(group: SequenceGroup, budget: int) -> Plan:
    """How many pending tokens of each active sequence run within `budget`; empty when none can.

    All sequences of a group emit in the same step: where the budget does not reach, each holds back its
    last pending token, which for a decode is all it has.
    """
    if group.num_pending <= budget:
        return [(sequence, sequence.num_pending) for sequence in group.active]
    plan: Plan = []
    for sequence in group.active:
        num_tokens = min(sequence.num_pending - 1, budget)
        if num_tokens > 0:
            plan.append((sequence, num_tokens))
            budget -= num_tokens
    return plan


def reserve(plan: Plan, allocator: KVAllocator) -> Short | None:
    """Room for every chunk; on a shortage some may have got theirs, which they keep."""
    for sequence, num_tokens in plan:
        answer = allocator.grow(sequence, num_tokens)
        if isinstance(answer, Short):
            return answer
    return None
