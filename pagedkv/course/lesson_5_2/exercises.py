"""The chapter's three questions as exercises, in the order of the notebook."""

from pagedkv.course.lesson_5_2.breaking import BREAK, PROPERTY
from pagedkv.course.lesson_5_2.data_flow import DATA_FLOW
from pagedkv.course.lesson_5_2.merging import DERIVATION, MERGE
from pagedkv.course.lesson_5_2.wrong_entry import DAMAGE, FIND, HARM, ORDER, ROLES_BY_CODE, ROLES_BY_WORD

EXERCISES = (DATA_FLOW, ROLES_BY_WORD, ROLES_BY_CODE, ORDER, DAMAGE, HARM, FIND, DERIVATION, MERGE, PROPERTY, BREAK)
