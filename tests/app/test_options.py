"""Several allocators share one set of options: each gets those that it has a use for."""

import pytest

from app.options import make_configs
from sim import Config, InputError
from sim.alloc import ALLOCATORS

ALL_OPTIONS = {
    "placement": "best-fit", "preempt": "swap", "swap_blocks": 4, "victim": "oldest", "prefix_cache": "hash",
}  # fmt: skip


def test_an_option_goes_to_the_allocators_that_have_a_use_for_it():
    by_name = {config.allocator: config for config in make_configs(ALLOCATORS, ALL_OPTIONS, max_len=512)}
    assert list(by_name) == list(ALLOCATORS)
    paged = {name: value for name, value in ALL_OPTIONS.items() if name != "placement"}
    assert by_name["paged"] == Config(max_len=512, **paged)
    for name in ("max", "pow2", "oracle"):
        assert by_name[name] == Config(allocator=name, placement="best-fit", max_len=512)


@pytest.mark.parametrize(
    ("allocators", "option", "refused"),
    [
        (("paged",), {"placement": "best-fit"}, "--placement best-fit with --allocator paged"),
        (("max", "oracle"), {"preempt": "swap"}, "--preempt swap with --allocator max"),
        (("pow2",), {"prefix_cache": "radix"}, "--prefix-cache radix with --allocator pow2"),
        (("oracle", "max"), {"swap_blocks": 0}, "--swap-blocks 0 with --allocator oracle"),
        (("max", "pow2"), {"victim": "oldest", "placement": "buddy"}, "--victim oldest with --allocator max"),
    ],
)
def test_an_option_for_which_none_of_them_has_a_use_is_refused(allocators, option, refused):
    with pytest.raises(InputError) as error:
        make_configs(allocators, option)
    assert str(error.value).startswith(refused)


def test_an_option_that_was_not_given_is_neither_dropped_nor_refused():
    given = dict.fromkeys(ALL_OPTIONS)
    assert make_configs(["max", "paged"], given) == [Config(allocator="max"), Config()]
    assert make_configs(["paged"], {"block_size": 8, "placement": None}) == [Config(block_size=8)]


def test_what_was_given_goes_before_the_commands_own_defaults():
    given = {"model": "opt-13b", "kv_dtype": None}
    [config] = make_configs(["paged"], given, model="tiny", kv_dtype="fp32")
    assert (config.model, config.kv_dtype) == ("opt-13b", "fp32")


def test_a_misspelt_allocator_is_what_is_told_whatever_else_was_given():
    with pytest.raises(InputError, match="unknown allocator 'pagd': did you mean 'paged'"):
        make_configs(["pagd", "max"], ALL_OPTIONS)
