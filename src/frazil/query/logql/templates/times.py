"""Has moments with nanoseconds, read and written by Go's layouts."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

_SECOND = 1_000_000_000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LAYOUT = re.compile(
    r"January|Jan|Monday|Mon|MST|2006|01|02|03|04|05|06|002|15|PM|pm|Z07:00:00|Z070000|Z07:00|Z0700|Z07"
    r"|-07:00:00|-070000|-07:00|-0700|-07|__2|_2|[.,]0+(?!\d)|[.,]9+(?!\d)|1|2|3|4|5"
)
_MONTHS = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
]
_DAYS = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"]


class LayoutFault(ValueError):
    """Raised when a text does not have the layout."""


@dataclass(frozen=True, order=True)
class GoTime:
    nanoseconds: int
    """Since 1970 in UTC."""
    offset_seconds: int = 0
    zone: str = "UTC"

    def __str__(self) -> str:
        return self.format("2006-01-02 15:04:05.999999999 -0700 MST")

    def __bool__(self) -> bool:
        return True

    def format(self, layout: str) -> str:
        seconds, fraction = divmod(self.nanoseconds, _SECOND)
        local = _EPOCH + timedelta(seconds=seconds + self.offset_seconds)
        return _LAYOUT.sub(lambda token: self._part(token[0], local, fraction), layout)

    def _part(self, token: str, local: datetime, fraction: int) -> str:
        hour = local.hour % 12 or 12
        simple = {
            "January": _MONTHS[local.month - 1],
            "Jan": _MONTHS[local.month - 1][:3],
            "Monday": _DAYS[local.weekday()],
            "Mon": _DAYS[local.weekday()][:3],
            "2006": f"{local.year:04d}",
            "06": f"{local.year % 100:02d}",
            "01": f"{local.month:02d}",
            "1": str(local.month),
            "02": f"{local.day:02d}",
            "_2": f"{local.day:2d}",
            "2": str(local.day),
            "002": f"{local.timetuple().tm_yday:03d}",
            "__2": f"{local.timetuple().tm_yday:3d}",
            "15": f"{local.hour:02d}",
            "03": f"{hour:02d}",
            "3": str(hour),
            "04": f"{local.minute:02d}",
            "4": str(local.minute),
            "05": f"{local.second:02d}",
            "5": str(local.second),
            "PM": "PM" if local.hour >= 12 else "AM",
            "pm": "pm" if local.hour >= 12 else "am",
            "MST": self.zone,
        }
        if token in simple:
            return simple[token]
        if token[0] in ".,":
            digits = f"{fraction:09d}"[: len(token) - 1]
            if token[1] == "9":
                digits = digits.rstrip("0")
                return token[0] + digits if digits else ""
            return token[0] + digits.ljust(len(token) - 1, "0")
        return self._zone_part(token)

    def _zone_part(self, token: str) -> str:
        if token[0] == "Z" and self.offset_seconds == 0:
            return "Z"
        sign = "-" if self.offset_seconds < 0 else "+"
        minutes, seconds = divmod(abs(self.offset_seconds), 60)
        hours, minutes = divmod(minutes, 60)
        colon = ":" if ":" in token else ""
        text = f"{sign}{hours:02d}"
        if len(token.replace(":", "")) >= 5:
            text += f"{colon}{minutes:02d}"
        if len(token.replace(":", "")) >= 7:
            text += f"{colon}{seconds:02d}"
        return text


ZERO = GoTime(-62135596800 * _SECOND)
"""Is Go's zero time, the first moment of year 1."""


def zone_of(name: str) -> tzinfo:
    """Returns the zone of that name; UTC for unknown ones, as the functions of templates have it."""
    if name in ("", "UTC", "Local"):
        return UTC
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return UTC


_PATTERNS = {
    "January": f"(?P<month_name>{'|'.join(_MONTHS)})",
    "Jan": f"(?P<month_short>{'|'.join(name[:3] for name in _MONTHS)})",
    "Monday": f"(?:{'|'.join(_DAYS)})",
    "Mon": f"(?:{'|'.join(name[:3] for name in _DAYS)})",
    "2006": r"(?P<year>\d{4})",
    "06": r"(?P<short_year>\d{2})",
    "01": r"(?P<month>\d{2})",
    "1": r"(?P<month>\d{1,2})",
    "02": r"(?P<day>\d{2})",
    "_2": r"(?P<day> ?\d{1,2})",
    "2": r"(?P<day>\d{1,2})",
    "002": r"(?P<year_day>\d{3})",
    "__2": r"(?P<year_day> {0,2}\d{1,3})",
    "15": r"(?P<hour>\d{2})",
    "03": r"(?P<half_hour>\d{2})",
    "3": r"(?P<half_hour>\d{1,2})",
    "04": r"(?P<minute>\d{2})",
    "4": r"(?P<minute>\d{1,2})",
    "05": r"(?P<second>\d{2})(?:[.,](?P<fraction>\d+))?",
    "5": r"(?P<second>\d{1,2})(?:[.,](?P<fraction>\d+))?",
    "PM": r"(?P<half>[AP]M)",
    "pm": r"(?P<half>[ap]m)",
    "MST": r"(?P<zone>[A-Z]{3,5}|[+-]\d{2,4})",
}
_OFFSET = r"(?P<offset>[+-]\d{2}(?::?\d{2}){0,2})"


def parse_time(layout: str, text: str, zone: tzinfo = UTC) -> GoTime:
    """Reads a moment; without an offset in the text it is one of the zone."""
    found = re.compile(_pattern_of(layout)).fullmatch(text)
    if found is None:
        raise LayoutFault(f'parsing time "{text}" as "{layout}": cannot parse')
    fields = {name: value for name, value in found.groupdict().items() if value is not None}
    try:
        return _assembled(fields, zone)
    except ValueError as wrong:
        raise LayoutFault(f'parsing time "{text}": {wrong}') from None


def _pattern_of(layout: str) -> str:
    pattern, at, seen = "", 0, set()
    for token in _LAYOUT.finditer(layout):
        pattern += re.escape(layout[at : token.start()])
        at = token.end()
        if token[0][0] in ".,":
            has_fraction = "fraction" in seen
            pattern += "" if has_fraction else r"(?:[.,](?P<fraction>\d+))?"
            continue
        part = _PATTERNS.get(token[0]) or (f"(?:Z|{_OFFSET})" if token[0][0] == "Z" else _OFFSET)
        name = re.search(r"\?P<(\w+)>", part)
        if name and name[1] in seen:
            part = re.sub(r"\?P<\w+>", "?:", part)
        seen |= set(re.findall(r"\?P<(\w+)>", part))
        pattern += part
    return pattern + re.escape(layout[at:])


def _assembled(fields: dict[str, str], zone: tzinfo) -> GoTime:
    year = int(fields.get("year", 0)) or (_century(int(fields["short_year"])) if "short_year" in fields else 1)
    month = int(fields.get("month", 0)) or 1
    if "month_name" in fields:
        month = _MONTHS.index(fields["month_name"]) + 1
    elif "month_short" in fields:
        month = [name[:3] for name in _MONTHS].index(fields["month_short"]) + 1
    hour = int(fields.get("hour", fields.get("half_hour", "0")))
    if (half := fields.get("half", "").lower()) and "half_hour" in fields:
        hour = hour % 12 + (12 if half == "pm" else 0)
    clock = hour, int(fields.get("minute", "0")), int(fields.get("second", "0"))
    moment = datetime(year, month, int(fields.get("day", "1")), *clock, tzinfo=UTC)
    if "year_day" in fields:
        moment += timedelta(days=int(fields["year_day"]) - 1)
    if "offset" in fields:
        zone = timezone(timedelta(seconds=_offset_seconds(fields["offset"])))
    local = moment.replace(tzinfo=zone)
    offset = local.utcoffset() or timedelta()
    passed = moment - offset - _EPOCH
    nanoseconds = (passed.days * 86400 + passed.seconds) * _SECOND + int(
        fields.get("fraction", "0").ljust(9, "0")[:9]
    )
    name = fields.get("zone") or ("UTC" if not offset else local.tzname() if isinstance(zone, ZoneInfo) else "") or ""
    seconds = int(offset.total_seconds())
    return GoTime(nanoseconds, seconds, name or GoTime(0, seconds)._zone_part("-0700"))


def _century(short: int) -> int:
    return short + (1900 if short >= 69 else 2000)


def _offset_seconds(text: str) -> int:
    digits = text[1:].replace(":", "").ljust(6, "0")
    seconds = int(digits[:2]) * 3600 + int(digits[2:4]) * 60 + int(digits[4:6])
    return -seconds if text[0] == "-" else seconds
