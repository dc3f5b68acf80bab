"""Each public format on a small hand-made sample in its own dress, and its own mistakes."""

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sim.errors import InputError

AZURE = (
    "TIMESTAMP,ContextTokens,GeneratedTokens\r\n"
    "2023-11-16 18:17:03.9799600,4808,10\r\n2023-11-16 18:17:04.0319600,3180,8\r\n"
    "2023-11-16 18:17:04.0781490,110,27"
)
BURST_HEADER = "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n"
VIDUR = "arrived_at,num_prefill_tokens,num_decode_tokens\n0.5,4808,10\n0.552,3180,8\n"
LENGTHS = (
    "num_prefill_tokens,num_decode_tokens,num_total_tokens,pd_ratio\n74,918,992,0.08\n290,905,1195,0.32\n"
)


def table(trace: Any) -> list[tuple[str, float, int, int]]:
    return [(request.id, request.arrival_s, request.prompt, request.output) for request in trace]


def test_azure_arrivals_count_from_the_first_request_and_ids_follow_the_file(read_text):
    expected = [("r0", 0.0, 4808, 10), ("r1", 0.052, 3180, 8), ("r2", 0.098189, 110, 27)]
    assert table(read_text(AZURE)) == expected


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("2024-05-10 00:00:00.009930+00:00", "2024-05-10 00:00:01.509930+00:00"),
        ("2024-05-10T00:00:00Z", "2024-05-10T00:00:01.5Z"),
        ("2024-05-10 00:00:00", "2024-05-10 00:00:01.5+00:00"),
        ("2024-05-10 00:00:00", "2024-05-10 02:00:01.500+02:00"),
        ("2024-05-10 00:00:00.123456789", "2024-05-10 00:00:01.623456789"),
        (" 2024-05-10 00:00:00", "2024-05-10 00:00:01.5 "),
    ],
)
def test_azure_stamps_may_have_offsets_and_any_number_of_digits(read_text, first, second):
    trace = read_text(f"TIMESTAMP,ContextTokens,GeneratedTokens\n{first},1,2\n{second},3,4\n")
    assert [request.arrival_s for request in trace] == [0.0, 1.5]


def test_azure_rows_out_of_order_keep_the_ids_of_the_file_and_start_at_zero(read_text):
    rows = AZURE.split("\r\n")
    trace = read_text("\n".join([rows[0], rows[2], rows[1]]))
    assert table(trace) == [("r1", 0.0, 4808, 10), ("r0", 0.052, 3180, 8)]
    assert len(trace.notes) == 1


def test_columns_are_found_by_name_in_any_order_and_case_and_unused_ones_are_noted(read_text):
    trace = read_text("generatedtokens,NumImages,TIMESTAMP,ContextTokens\n10,2,2023-11-16 18:17:03,4808\n")
    assert table(trace) == [("r0", 0.0, 4808, 10)]
    assert trace.notes == ("columns not used: NumImages",)


def test_burstgpt_skips_failed_requests_and_counts_them(read_text):
    trace = read_text(
        BURST_HEADER + "3,ChatGPT,0,0,0,API log\n4,ChatGPT,12,0,12,API log\n"
        "5,ChatGPT,472,18,490,Conversation log\n5,ChatGPT,0,7,7,API log\n"
        "45,GPT-4,1087,230,1317,Conversation log\n"
    )
    assert table(trace) == [("r0", 0.0, 472, 18), ("r1", 40.0, 1087, 230)]
    assert trace.skipped == {"failed request (Response tokens 0)": 2, "no prompt (Request tokens 0)": 1}


def test_burstgpt_3_has_a_session_in_a_column_put_in_between(read_text):
    trace = read_text(
        "Timestamp,Session ID,Elapsed time,Model,Request tokens,Response tokens,Total tokens,Log Type\n"
        "5,abc,1.5,ChatGPT,472,18,490,Conversation log\n6,,1.5,ChatGPT,10,20,30,API log\n"
    )
    assert [(request.prompt, request.session) for request in trace] == [(472, "abc"), (10, None)]


def test_burstgpt_with_nothing_but_failures_says_what_it_skipped(read_text):
    with pytest.raises(InputError, match=r"holds no request \(1 skipped: failed request"):
        read_text(BURST_HEADER + "3,ChatGPT,5,0,5,API log\n")


def mooncake(**changes: Any) -> str:
    row = {"timestamp": 1000, "input_length": 600, "output_length": 5, "hash_ids": [0, 1], **changes}
    return json.dumps({key: value for key, value in row.items() if value is not None}) + "\n"


def test_mooncake_times_are_milliseconds_and_blocks_hold_512_tokens(read_text):
    trace = read_text(mooncake() + mooncake(timestamp=1040, hash_ids=[0, 2]))
    assert table(trace) == [("r0", 0.0, 600, 5), ("r1", 0.04, 600, 5)]
    assert [(request.blocks, request.block_tokens) for request in trace] == [((0, 1), 512), ((0, 2), 512)]


def test_mooncake_lumps_are_noted_or_spread_evenly_over_the_time_asked_for(read_text):
    rows = mooncake() * 4 + mooncake(timestamp=4000) * 2
    (note,) = read_text(rows).notes
    assert note == "6 requests arrive at 2 instants, as in the file; spread_s spreads them"
    trace = read_text(rows, spread_s=3)
    assert [request.arrival_s for request in trace] == [0.0, 0.75, 1.5, 2.25, 3.0, 4.5]
    assert trace.notes == ("requests of one instant were spread evenly over 3 s",)


def test_mooncake_without_hashes_shares_nothing_and_other_keys_are_noted(read_text):
    trace = read_text(mooncake(hash_ids=None, session_id="s", tools=1))
    (request,) = trace
    assert (request.blocks, request.block_tokens, request.session) == (None, None, "s")
    assert trace.notes == ("keys not used: tools",)


def bailian(**changes: Any) -> str:
    row = {
        "chat_id": 0, "parent_chat_id": -1, "timestamp": 10.25, "input_length": 20, "output_length": 30,
        "type": "text", "turn": 1, "hash_ids": [0, 1],
    }  # fmt: skip
    return json.dumps({**row, **changes}) + "\n"


def test_bailian_turns_of_a_chat_are_one_session_of_16_token_blocks(read_text):
    trace = read_text(
        bailian()
        + bailian(chat_id=7, timestamp=11.0)
        + bailian(chat_id=9, parent_chat_id=0, timestamp=12.5, turn=2)
        + bailian(chat_id=12, parent_chat_id=9, timestamp=13.0)
        + bailian(chat_id=13, parent_chat_id=999, timestamp=14.0)
    )
    assert [request.id for request in trace] == ["0", "7", "9", "12", "13"]
    assert [request.arrival_s for request in trace] == [0.0, 0.75, 2.25, 2.75, 3.75]
    assert [request.session for request in trace] == ["0", "7", "0", "0", "13"]
    assert (trace.requests[0].blocks, trace.requests[0].block_tokens) == ((0, 1), 16)


def test_bailian_parents_that_go_in_a_circle_end_in_one_session(read_text):
    trace = read_text(bailian(chat_id=1, parent_chat_id=2) + bailian(chat_id=2, parent_chat_id=1))
    assert [request.session for request in trace] == ["1", "1"]


def chat(*turns: tuple[str, str], **fields: Any) -> dict[str, Any]:
    return {"id": "c", "conversations": [{"from": role, "value": text} for role, text in turns], **fields}


def test_sharegpt_takes_the_first_prompt_with_a_reply_and_says_that_lengths_are_an_estimate(read_text):
    conversations = [
        chat(("human", "12345678"), ("gpt", "123456789"), ("human", "more")),
        chat(("system", "be kind"), ("human", "1234"), ("gpt", "1")),
        chat(("human", "hello")),
        chat(("human", "hello"), ("gpt", " ")),
        chat(),
    ]
    trace = read_text(json.dumps(conversations, indent=1), rate=5.0)
    assert [(request.prompt, request.output) for request in trace] == [(2, 3), (1, 1)]
    assert {request.session for request in trace} == {"c"}
    assert trace.skipped == {"no prompt with a reply": 2, "empty prompt or reply": 1}
    assert trace.notes == (
        "token counts are an estimate, not measured: 4 characters a token, rounded up",
        "the file has no arrivals: Poisson, 5 requests/s, seed 0",
    )


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("[\n{", "line 2: is not JSON"),
        ("[1]", "conversation 1: must be an object with a list 'conversations'"),
        ('[{"conversations": 1}]', "conversation 1: must be an object with a list"),
        ('[{"conversations": ["a"]}]', "conversation 1: a turn must be an object with texts"),
        ('[{"conversations": [{"from": "human", "value": 1}]}]', "conversation 1: a turn must be"),
        ("[]", "holds no request"),
        ("[" * 100_000, "nested too deeply"),
    ],
)
def test_sharegpt_mistakes(read_text, text, complaint):
    with pytest.raises(InputError, match=complaint):
        read_text(text)


def test_vidur_arrivals_count_from_the_first(read_text):
    assert table(read_text(VIDUR)) == [("r0", 0.0, 4808, 10), ("r1", 0.052, 3180, 8)]


@pytest.mark.parametrize("header", ["num_prefill_tokens,num_decode_tokens", "prompt_tokens,output_tokens"])
def test_length_only_files_get_seeded_poisson_arrivals_and_say_so(read_text, header):
    rows = header + "\n" + "29,202\n" * 2000
    trace = read_text(rows, rate=4.0, seed=3)
    assert trace.notes == ("the file has no arrivals: Poisson, 4 requests/s, seed 3",)
    assert trace.requests == read_text(rows, rate=4.0, seed=3).requests
    assert trace.requests != read_text(rows, rate=4.0, seed=4).requests
    assert trace.requests[0].arrival_s == 0.0
    assert trace.info()["rate_per_s"] == pytest.approx(4.0, rel=0.05)


def test_length_only_columns_that_follow_from_others_are_noted(read_text):
    trace = read_text(LENGTHS)
    assert [(request.prompt, request.output) for request in trace] == [(74, 918), (290, 905)]
    assert trace.notes[0] == "columns not used: num_total_tokens, pd_ratio"


def azure(stamp: str = "2023-11-16 18:17:03", prompt: str = "1", output: str = "1") -> str:
    return f"TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:17:03,1,1\n\n{stamp},{prompt},{output}\n"


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (azure(prompt="-4"), "line 4, ContextTokens: '-4' must be a whole number from 1"),
        (azure(prompt="4.5"), "line 4, ContextTokens: '4.5' must be"),
        (azure(prompt="4.0"), "line 4, ContextTokens: '4.0' must be"),
        (azure(prompt="0"), "line 4, ContextTokens: '0' must be"),
        (azure(prompt=""), "line 4, ContextTokens: '' must be"),
        (azure(prompt="nan"), "line 4, ContextTokens: 'nan' must be"),
        (azure(prompt="1_0"), "line 4, ContextTokens: '1_0' must be"),
        (azure(prompt="١٢"), "line 4, ContextTokens: "),
        (azure(output="9" * 5000), "line 4, GeneratedTokens: '9999"),
        (azure(output="1e3"), "line 4, GeneratedTokens: '1e3' must be"),
        (azure(output="ten"), "line 4, GeneratedTokens: 'ten' must be"),
        (azure(stamp="yesterday"), "line 4, TIMESTAMP: 'yesterday' must be a date and time such as"),
        (azure(stamp="2023-13-16 18:17:03"), "line 4, TIMESTAMP: "),
        (azure(stamp="0001-01-01 00:00:00+23:00"), "line 4, TIMESTAMP: "),
        (azure(stamp=""), "line 4, TIMESTAMP: '' must be"),
        (azure(output="1,2"), "line 4: 4 cells must be 3, as in the header"),
        (azure() + "2023-11-16", "line 5: 1 cells must be 3"),
        (azure(output='"1'), "line 4: is not CSV"),
        ("TIMESTAMP,ContextTokens\n2023-11-16 18:17:03,1\n", "line 1, GeneratedTokens: the column is"),
        ("TIMESTAMP,ContextTokens,GeneratedTokens,timestamp\n1,2,3,4\n", "line 1, timestamp: the header has"),
        (BURST_HEADER + "NaN,M,1,1,2,log\n", "line 2, Timestamp: 'NaN' must be a finite number of seconds"),
        (BURST_HEADER + "1e999,M,1,1,2,log\n", "line 2, Timestamp: '1e999' must be"),
        (BURST_HEADER + "-1,M,1,1,2,log\n", "line 2, Timestamp: '-1' must be"),
        (BURST_HEADER + "1,M,1,-1,2,log\n", "line 2, Response tokens: '-1' must be a whole number from 0"),
        (BURST_HEADER.replace("Response tokens", "x"), "line 1, Response tokens: the column is"),
        (VIDUR + "inf,1,1\n", "line 4, arrived_at: 'inf' must be"),
        (VIDUR + "1,1,0\n", "line 4, num_decode_tokens: '0' must be"),
        (VIDUR.replace("num_decode_tokens", "decodes"), "line 1, num_decode_tokens or output_tokens: the"),
        (LENGTHS + "1,0,1,1\n", "line 4, num_decode_tokens: '0' must be"),
        (mooncake(timestamp=0.2), "line 1, timestamp: 0.2 must be whole milliseconds; multiply"),
        (mooncake(timestamp=-1), "line 1, timestamp: -1 must be"),
        (mooncake(timestamp=None), "line 1, timestamp: is missing"),
        (mooncake(input_length=0), "line 1, input_length: 0 must be"),
        (mooncake(hash_ids=[0]), "line 1, hash_ids: 1 ids must be 2 to cover prompt 600 at 512 tokens each"),
        (mooncake(hash_ids=[0, 0]), "line 1, hash_ids: an id repeats"),
        (mooncake(hash_ids=[0, -1]), "line 1, hash_ids: -1 at index 1"),
        (bailian() + bailian(), "line 2, chat_id: 0 stands on an earlier line too"),
        (bailian(output_length=1.5), "line 1, output_length: 1.5 must be"),
        (bailian(hash_ids=[0]), "line 1, hash_ids: 1 ids must be 2"),
        (bailian(parent_chat_id="x"), "line 1, parent_chat_id: 'x' must be"),
    ],
)  # fmt: skip
def test_a_bad_row_is_one_line_that_names_file_line_field_and_remedy(read_text, text, complaint):
    with pytest.raises(InputError) as error:
        read_text(text)
    assert f"sample, {complaint}" in str(error.value)
    assert "\n" not in str(error.value)
    assert len(str(error.value)) < 400


@pytest.mark.parametrize("value", [0, -1, float("nan"), float("inf")])
def test_a_rate_or_a_spread_that_makes_no_sense_is_refused(read_text, value):
    with pytest.raises(InputError, match="must be above 0 and finite"):
        read_text(LENGTHS, rate=value)
    with pytest.raises(InputError, match="must be above 0 and finite"):
        read_text(mooncake(), spread_s=value)


def test_the_format_may_be_said_instead_of_detected(read_text):
    with pytest.raises(InputError, match="line 1, Timestamp: the column is missing"):
        read_text(VIDUR, format="burstgpt")
    assert len(read_text(VIDUR, format="lengths")) == 2


BURST = BURST_HEADER + "5,M,472,18,490,log\n"
NATIVE = json.dumps({"id": "a", "arrival": 1, "prompt": 2, "output": 3, "tokens": [1, 2], "session": "s"})
SHAREGPT = json.dumps([chat(("human", "hello"), ("gpt", "hi"))])
SAMPLES = [AZURE, BURST, VIDUR, LENGTHS, mooncake() * 2, bailian() * 2, NATIVE, SHAREGPT]
PIECES = [*'\n,"{}[]-.:0\0é', "e9", "null", "true", "NaN", "9" * 30, ""]

edits = st.lists(st.tuples(st.integers(0, 400), st.integers(0, 9), st.sampled_from(PIECES)))


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.sampled_from(SAMPLES), edits)
def test_a_file_with_anything_cut_out_or_put_in_is_read_or_refused_in_one_line(read_text, text, edits):
    for start, length, piece in edits:
        at = start % (len(text) + 1)
        text = text[:at] + piece + text[at + length :]
    message = ""
    try:
        read_text(text)
    except InputError as error:
        message = str(error)
    assert message.isprintable()
    assert len(message) < 600
