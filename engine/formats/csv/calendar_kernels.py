"""Days since 1970 and dates of the Gregorian calendar, both ways (H. Hinnant, "chrono-Compatible Low-Level Date
Algorithms", 2013)."""

from __future__ import annotations

import numpy as np
from numba import njit

MICROSECONDS_A_DAY = 86_400_000_000
FIRST_DAY = -719_162
LAST_DAY = 2_932_896
"""0001-01-01 and 9999-12-31: four digits have no other years."""

_DAYS = np.array([31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31], np.int64)


@njit(nogil=True, cache=True)
def days_in_month(year, month):  # type: ignore[no-untyped-def]
    is_leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    return np.int64(29) if month == 2 and is_leap else _DAYS[month - 1]


@njit(nogil=True, cache=True)
def days_of_date(year, month, day):  # type: ignore[no-untyped-def]
    """Days since 1970-01-01; years from 1 on."""
    shifted = year - (1 if month <= 2 else 0)
    era = shifted // 400
    year_of_era = shifted - era * 400
    day_of_year = (153 * ((month + 9) % 12) + 2) // 5 + day - 1
    return era * 146_097 + year_of_era * 365 + year_of_era // 4 - year_of_era // 100 + day_of_year - 719_468


@njit(nogil=True, cache=True)
def date_of_days(days):  # type: ignore[no-untyped-def]
    """(year, month, day)."""
    shifted = days + 719_468
    era = shifted // 146_097
    day_of_era = shifted - era * 146_097
    year_of_era = (day_of_era - day_of_era // 1460 + day_of_era // 36_524 - day_of_era // 146_096) // 365
    day_of_year = day_of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    month = (5 * day_of_year + 2) // 153
    day = day_of_year - (153 * month + 2) // 5 + 1
    year = year_of_era + era * 400
    return (year, month + 3, day) if month < 10 else (year + 1, month - 9, day)
