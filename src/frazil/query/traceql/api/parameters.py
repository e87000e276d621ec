"""Reads the parameters of requests, and says what is wrong with them in Tempo's words."""

from __future__ import annotations

import re
import time
from datetime import datetime
from urllib.parse import parse_qs

from frazil.engine.interface import QueryRequest
from frazil.query.traceql.api.replies import RequestRefused
from frazil.query.traceql.parse.durations import format_duration, parse_duration, parse_go_duration
from frazil.web.parameters import FORM

SECOND = 10**9
LOOKBACK_NS = 15 * 60 * SECOND
"""Requests that name no time ask for this long before now."""
METRICS_LOOKBACK_NS = 3600 * SECOND
MOST_NS = 168 * 3600 * SECOND
"""A search is over no more time than this."""
MOST_PARAMETERS = 1000
_UINT32 = 2**32 - 1
_LATEST = float(2**62)


class Parameters:
    def __init__(self, request: QueryRequest) -> None:
        pairs = [request.query]
        if request.headers.get("content-type", "").partition(";")[0].strip().lower() == FORM:
            pairs.insert(0, request.body.decode("latin-1"))
        try:
            text = "&".join(filter(None, pairs))
            self._values = parse_qs(text, keep_blank_values=True, max_num_fields=MOST_PARAMETERS)
        except ValueError:
            raise RequestRefused(f"there are more than {MOST_PARAMETERS} parameters") from None

    def text(self, name: str) -> str:
        """Returns the first value of a parameter, or an empty text."""
        return self._values.get(name, [""])[0]

    def texts(self, name: str) -> list[str]:
        return self._values.get(name, [])

    def has(self, name: str) -> bool:
        return bool(self.text(name))

    def count(self, name: str, otherwise: int) -> int:
        """Returns a parameter that is a number of 32 bits without a sign."""
        text = self.text(name)
        if not text:
            return otherwise
        if not re.fullmatch(r"[0-9]+", text):
            raise RequestRefused(f'invalid {name}: strconv.ParseUint: parsing "{text}": invalid syntax')
        if len(text) > 12 or int(text) > _UINT32:
            raise RequestRefused(f'invalid {name}: strconv.ParseUint: parsing "{text}": value out of range')
        return int(text)

    def lenient_count(self, name: str) -> int:
        """Returns a number; 0 where there is none."""
        text = self.text(name)
        return int(text) if re.fullmatch(r"[0-9]{1,9}", text) else 0

    def go_duration(self, name: str) -> int | None:
        text = self.text(name)
        if not text:
            return None
        found = parse_go_duration(text)
        if found is None:
            problem = "missing unit in" if re.fullmatch(r"[0-9.]+", text) else "invalid"
            raise RequestRefused(f'invalid {name}: time: {problem} duration "{text}"')
        return found

    def search_range(self, now_ns: int | None = None) -> tuple[int, int]:
        """Returns the time of a search or of tags, in nanoseconds. Its bounds are seconds."""
        now = time.time_ns() if now_ns is None else now_ns
        if not self.has("start") and not self.has("end"):
            since = self.text("since")
            lookback = parse_duration(since) if since else LOOKBACK_NS
            if lookback is None:
                raise RequestRefused(f'invalid since: not a valid duration string: "{since}"')
            return now - lookback, now
        start, end = self.count("start", 0), self.count("end", 0)
        if end <= start:
            raise RequestRefused(f"http parameter start must be before end. received start={start} end={end}")
        if (end - start) * SECOND > MOST_NS:
            raise RequestRefused(
                f"range specified by start and end exceeds 168h0m0s. received start={start} end={end}"
            )
        return start * SECOND, end * SECOND

    def metrics_range(self, now_ns: int | None = None) -> tuple[int, int]:
        """Returns the time of a metrics query, in nanoseconds."""
        now = time.time_ns() if now_ns is None else now_ns
        end = _moment("end", self.text("end")) if self.has("end") else now
        if self.has("start"):
            return _moment("start", self.text("start")), end
        since = self.text("since")
        lookback = parse_duration(since) if since else METRICS_LOOKBACK_NS
        if lookback is None:
            raise _unparsable("since", f'not a valid duration string: "{since}"')
        return min(end, now) - lookback, end

    def step_ns(self, start_ns: int, end_ns: int) -> int:
        text = self.text("step")
        if not text:
            return default_step(end_ns - start_ns)
        if re.fullmatch(r"[0-9]*\.?[0-9]+", text):
            step = _seconds(float(text))
        elif text.startswith("-"):
            raise _refused(f'cannot parse "{text}": step must be positive')
        else:
            found = parse_duration(text)
            if found is None:
                raise _refused(f'cannot parse "{text}" to a valid duration')
            step = found
        return step


def default_step(range_ns: int) -> int:
    """Returns the step of a range that names none: about a 240th of it, and a round number."""
    aim = range_ns // 240
    if range_ns < 60 * SECOND:
        smallest = 50 * 10**6
        return max(smallest, aim // smallest * smallest)
    for seconds in (3600, 300, 60, 15, 5, 1):
        if aim > seconds * SECOND:
            return aim // (seconds * SECOND) * (seconds * SECOND)
    return SECOND


def check_steps(start_ns: int, end_ns: int, step_ns: int, most: int) -> None:
    """Refuses ranges with more steps than one may have."""
    if step_ns <= 0 or (end_ns - start_ns) // step_ns > most:
        least = format_duration(-(-(end_ns - start_ns) // most))
        raise RequestRefused(
            f"step of {format_duration(step_ns)} is too small, minimum step for given range is {least}"
        )


def _seconds(number: float) -> int:
    """Returns seconds in nanoseconds, at most what 64 bits can have."""
    return int(min(number * SECOND, _LATEST))


def _moment(name: str, text: str) -> int:
    """Reads seconds (up to ten digits, or with a point), nanoseconds, or a date with a time."""
    if re.fullmatch(r"-?[0-9]+", text):
        if len(text) > 20:
            raise _unparsable(name, f'strconv.ParseInt: parsing "{text}": value out of range')
        return int(text) if len(text) > 10 else int(text) * SECOND
    if re.fullmatch(r"[0-9]+\.[0-9]+", text):
        return _seconds(float(text))
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is None:
        raise _unparsable(name, f'strconv.ParseInt: parsing "{text}": invalid syntax')
    return int(moment.timestamp() * 10**6) * 1000


def _unparsable(name: str, why: str) -> RequestRefused:
    return _refused(f"could not parse '{name}' parameter: {why}")


def _refused(message: str) -> RequestRefused:
    return RequestRefused(f"rpc error: code = Code(400) desc = {message}")
