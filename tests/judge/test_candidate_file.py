"""What the judge reads in a candidate's text."""

import pytest

from pike.judge.candidate_file import has_third_party_header, parse_problem

ORIGINAL = "# Copyright 2024 The Task's Authors\nclass Model: ...\n"


@pytest.mark.parametrize(
    ("source", "whose"),
    [
        ("class ModelNew: ...\n", False),
        (ORIGINAL + "class ModelNew: ...\n", False),
        ("# we are free to copy right-hand sides\n", False),
        ("# Copyright (c) 2023, Tri Dao.\n", True),
        ("// Licensed under the Apache License, Version 2.0\n", True),
        ("# SPDX-License-Identifier: MIT\n", True),
        (ORIGINAL + "# Copyright 2020 Others\n", True),
    ],
)
def test_a_header_of_others_is_found_and_the_task_s_own_is_not(source: str, whose: bool) -> None:
    assert has_third_party_header(source, ORIGINAL) is whose


@pytest.mark.parametrize(
    ("source", "why"),
    [
        ("# \ud800\nclass ModelNew: ...\n", "the answer holds characters that are no text"),
        ("class ModelNew: ...\0\n", "not valid Python: source code string cannot contain null bytes"),
        ("#" * 1_100_000, "the file is larger than 1048576 bytes"),
        ("# é\nclass ModelNew: ...\n", ""),
    ],
)
def test_a_text_that_is_no_python_file_has_a_reason(source: str, why: str) -> None:
    assert parse_problem(source) == why
