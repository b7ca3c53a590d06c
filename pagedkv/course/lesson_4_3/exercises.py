"""Exercises of lesson 4.3: four kernels, two that move rows (`moving`) and two that attend (`attending`)."""

from pagedkv.course.lesson_4_3.attending import BLOCK, DECODE
from pagedkv.course.lesson_4_3.moving import GATHER, SCATTER

EXERCISES = [SCATTER, GATHER, BLOCK, DECODE]
