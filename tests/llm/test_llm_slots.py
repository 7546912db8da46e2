"""How many requests a server gets at once, on a clock that the test moves."""

import asyncio
from contextlib import AsyncExitStack

import pytest

from pike.core.query import Query
from pike.core.step import Role
from pike.llm.provider.slots import GOOD_TO_RISE, Slots


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


async def played(slots: Slots, clock: Clock, waits: list[float]) -> None:
    """Requests that were sent together and whose answers begin after these waits."""
    async with AsyncExitStack() as open_calls:
        calls = [await open_calls.enter_async_context(slots.one()) for _ in waits]
        began = clock.now
        for call, wait in zip(calls, waits, strict=True):
            clock.now = began + wait
            slots.begins(call)


async def test_a_server_that_begins_all_at_once_gets_twice_as_many() -> None:
    clock = Clock()
    slots = Slots(clock)
    await played(slots, clock, [1.0, 1.1])
    assert slots.limit == 4
    await played(slots, clock, [1.0, 1.0, 1.2, 1.3])
    assert slots.limit == 8


async def test_one_request_alone_says_nothing() -> None:
    clock = Clock()
    slots = Slots(clock)
    await played(slots, clock, [1.0])
    assert slots.limit == 2


async def test_the_request_that_was_sent_last_may_be_answered_first() -> None:
    clock = Clock()
    slots = Slots(clock)
    async with slots.one() as first:
        async with slots.one() as last:
            clock.now = 0.1
            slots.begins(last)
            clock.now = 60.0
        assert slots.limit == 2
        slots.begins(first)
    assert slots.limit == 1


async def test_a_request_that_had_to_wait_lowers_the_number_once_for_all_that_waited_with_it() -> None:
    clock = Clock()
    slots = Slots(clock)
    await played(slots, clock, [1.0, 1.0])
    await played(slots, clock, [1.0, 60.0, 120.0, 180.0])
    assert slots.limit == 2


async def test_one_slot_is_seen_where_reading_a_prompt_takes_nearly_as_long_as_an_answer() -> None:
    clock = Clock()
    slots = Slots(clock)
    async with slots.one() as alone:
        clock.now = 13.0
        slots.begins(alone)
        clock.now = 30.0
    async with AsyncExitStack() as behind:
        async with slots.one() as ahead:
            waiting = await behind.enter_async_context(slots.one())
            clock.now = 43.0
            slots.begins(ahead)
            clock.now = 57.0
        clock.now = 57.1
        slots.begins(waiting)
    assert slots.limit == 1


async def test_two_slots_are_two_although_one_prompt_takes_longer_to_read_than_the_other() -> None:
    clock = Clock()
    slots = Slots(clock)
    async with AsyncExitStack() as last:
        async with slots.one() as first:
            clock.now = 10.0
            slots.begins(first)
            second = await last.enter_async_context(slots.one())
            clock.now = 25.0
            slots.begins(second)
            clock.now = 40.0
        third = await last.enter_async_context(slots.one())
        clock.now = 52.0
        slots.begins(third)
    assert slots.limit >= 2


async def test_after_a_while_one_more_is_tried() -> None:
    clock = Clock()
    slots = Slots(clock)
    await played(slots, clock, [1.0, 60.0])
    assert slots.limit == 1
    for _ in range(GOOD_TO_RISE - 1):
        await played(slots, clock, [1.0])
    assert slots.limit == 1
    await played(slots, clock, [1.0])
    assert slots.limit == 2


async def test_no_more_than_the_limit_are_under_way_and_a_cancelled_one_gives_its_place_back() -> None:
    slots = Slots()

    async def hold() -> None:
        async with slots.one():
            await asyncio.sleep(60.0)

    holding = [asyncio.create_task(hold()) for _ in range(2)]
    third = slots.one()
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(third.__aenter__(), 0.05)
    holding[0].cancel()
    await asyncio.wait_for(slots.one().__aenter__(), 5.0)
    holding[1].cancel()


async def test_only_requests_with_a_place_have_been_sent() -> None:
    slots, asked = Slots(Clock()), [Query(step, Role.FIX, "", "", 0.0, 1) for step in (0, 0, 0)]
    async with slots.one(asked[0]), slots.one(asked[1]):
        waiting = asyncio.create_task(slots.one(asked[2]).__aenter__())
        await asyncio.sleep(0)
        assert [slots.holds(query) for query in asked] == [True, True, False]
    await waiting
    assert [slots.holds(query) for query in asked] == [False, False, True]
