"""The visualizer's claims: what two documents state about paging, with the verdicts."""

import streamlit as st

from app.claims import CLAIMS, Claim, Verdict
from app.linked import check, one_of
from app.look import page_head

MARKS = {Verdict.HOLDS: "✔", Verdict.CONDITIONAL: "◐", Verdict.WRONG: "✘", Verdict.NOT_CHECKABLE: "?"}


@st.cache_data(show_spinner="Computing every claim ...")
def ledger() -> list[dict[str, str]]:
    """All claims as in `pagelab claims --json`; computed once for all visitors."""
    return [claim.as_json() for claim in CLAIMS.values()]


def page() -> None:
    """The ledger, and one claim in full."""
    page_head(
        "Claims",
        "What two documents about paging state, beside what PageLab computes or measures. No verdict is "
        "written down: each comes of a comparison. The same list: pagelab claims.",
    )
    entries = ledger()
    counts = {verdict: sum(entry["verdict"] == verdict for entry in entries) for verdict in Verdict}
    with st.container(horizontal=True, gap="large"):
        for verdict, count in counts.items():
            st.metric(f"{MARKS[verdict]} {verdict}", count, width="content")
    verdicts = [str(verdict) for verdict in Verdict]
    check(verdicts=one_of(verdicts))
    wanted = st.multiselect(
        "Show", verdicts, default=["wrong", "conditional"], key="verdicts", bind="query-params"
    )
    shown = [entry for entry in entries if entry["verdict"] in wanted]
    st.dataframe(  # pyright: ignore[reportUnknownMemberType]
        [
            {name: entry[name] for name in ("id", "text", "claimed", "computed", "verdict", "why")}
            for entry in shown
        ],
        hide_index=True,
        width="stretch",
    )
    if shown:
        ids = [entry["id"] for entry in shown]
        check(claim=one_of(ids))
        id = st.selectbox("In full", ids, key="claim", bind="query-params")
        explain(CLAIMS[id], next(entry for entry in shown if entry["id"] == id))


def explain(claim: Claim, entry: dict[str, str]) -> None:
    """One claim, its reason, and the command that shows it."""
    st.header(f"{MARKS[Verdict(entry['verdict'])]} {claim.text}: {claim.claimed}")
    st.write(entry["why"])
    st.write(f"Computed: {entry['computed'] or 'nothing'}. Stated in the {claim.source}.")
    st.code(claim.command, language=None)
