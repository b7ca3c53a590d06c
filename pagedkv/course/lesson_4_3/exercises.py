"""Exercises of lesson 4.3: two kernels that move rows (`moving`), two that attend (`attending`, `decoding`)."""

from pagedkv.course.lesson_4_3.attending import BLOCK
from pagedkv.course.lesson_4_3.decoding import DECODE
from pagedkv.course.lesson_4_3.moving import GATHER, SCATTER

EXERCISES = [SCATTER, GATHER, BLOCK, DECODE]
