"""Requests that try to make a gateway, the daemon and the API read different things.

Request n has ``n`` in the names of its topics and groups, so that its question can be found in the
audit. The user alice may do everything but DELETE to names that begin with ``ok``.
"""

from base64 import b64encode
from random import Random
from typing import Final

ALICE: Final = b64encode(b"alice:alice-secret").decode()
ADDRESS: Final = "127.0.0.1"


def _words(text: str) -> list[str]:
    return text.split()


_TARGETS: Final = (
    *(("GET", "/topics/{ok}"), ("POST", "/topics/{ok}"), ("GET", "/topics/{no}")),
    *(("GET", "/consumers/{ok}/topics/{ok}"), ("GET", "/consumers/{ok}/topics/{no}")),
    *(("GET", "/subjects/{ok}-value/versions"), ("DELETE", "/topics/{ok}")),
    *(("GET", "/public/{ok}"), ("POST", "/public/{ok}/{ok}")),
)
_METHODS: Final = _words("GET POST DELETE HEAD PUT OPTIONS PATCH get Delete PRI")
_ATTACKS: Final = _words(r"""
    /public/../topics/{no} /public/%2e%2e/topics/{no} /public/.%2E/topics/{no} /topics/{no}/../{ok}
    /public/..%2ftopics%2f{no} /public/x%2f..%2f..%2ftopics/{no} /public/%252e%252e/topics/{no}
    /public/..%5ctopics%5c{no} /public/..\topics\{no} /public/..%252ftopics%252f{no}
    /public/..;/topics/{no} /public/..;a=b/topics/{no} /public/..%3b/topics/{no}
    /public/%2e%2e;a/topics/{no} /public/.%00./topics/{no} /public/..%00/topics/{no}
    /topics/{ok}%2f..%2f{no} /topics/{ok}%252f..%252f{no} /topics/{ok}%5c..%5c{no}
    /topics/{ok};/../{no} /topics/{ok};a /topics/{ok}%3ba /topics/{ok}%00{no} /topics/{ok}%253ba
    //topics/{no} //public/../topics/{no} /public//../../topics/{no} /./topics/{no} /topics//{ok}
    /Topics/{ok} /TOPICS/{no} /%74opics/{ok} /topics/{ok}/ /topics/{ok}/. /topics/{ok}/x/..
    /subjects/{ok}-VALUE/versions /subjects/{ok}-value%2fversions /consumers/{ok}/topics/../{no}
    /consumers/{ok}/topics/{ok}%2f..%2f{no} /topics/{ok}#/../{no} /topics/{ok}?/../{no}
    /topics/{ok}?_method=DELETE /topics/{ok}?a=b&_method=DELETE /topics/{ok}?a;_method=DELETE
    /topics/{ok}?%5fmethod=DELETE /topics/{ok}%3f_method=DELETE
    http://other.example/topics/{no} http://other.example/public/{ok}
    """)
_SEGMENTS: Final = [
    *("", "%0d%0aX: y", "\x7f", "\xff", "\u2215"),
    *_words(r"""
    .. . ... %2e%2e .%2E %2e %252e%252e ..%2f ..%5c ..\ ..; ..;/ .;a=b ; ;a=b %3b {no}/.. ../{no}
    ..%2f{no} ..%252f{no} {no}%2f.. topics/{no} %2ftopics%2f{no} %00 %0a %09 %c0%ae%c0%ae %c0%af
    %ef%bc%8f %e3%80%82 %ff % %2 %zz %u002e {no}# # ? %3f %23 * TOPICS Topics %74opics %2574opics +
    """),
]
_ENDS: Final = _words(r"""
    / // /. /.. /%2e %2f %2F ; ;/../{no} ? ?? ?/../{no} # #/../{no} %00 %20 %0a . .. %3f \ %5c
    %5c..%5c{no} %252f..%252f{no} -value /versions ?topic={no} ?_method=DELETE ?x=1&_method=delete
    ?%5fmethod=DELETE ?a;_method=DELETE ?%255fmethod=DELETE
    """)
_STARTS: Final = _words(r"""
    http://127.0.0.1 http://other.example https://other.example:443 // / /. /.. /./ /%2e%2e /%2f
    //other.example \ /\ * /topics/../ /{no}/..
    """)
_HEADERS: Final = """\
X-Forwarded-User: admin
X_Forwarded_User: admin
X-Forwarded.User: admin
X-Forwarded-User:
X-Real-IP: 10.9.9.9
X_Real_IP: 10.9.9.9
X-Forwarded-For: 10.9.9.9
X_Forwarded_For: 10.9.9.9
X-Original-URI: /topics/{ok}
X_Original_URI: /topics/{ok}
X-Original-Method: GET
X-Original-URL: /topics/{no}
X-Rewrite-URL: /topics/{no}
X-Forwarded-Uri: /topics/{ok}
X_Forwarded_Uri: /topics/{ok}
X-Forwarded-Method: GET
X-Forwarded-Prefix: /topics
X-HTTP-Method-Override: DELETE
X-HTTP-Method-Override:
X_HTTP_Method_Override: DELETE
X-Http-Method_Override: DELETE
X-HTTP-Method: DELETE
X-Method-Override: DELETE
Host: other.example
Connection: X-Forwarded-User
Connection: X-HTTP-Method-Override
Connection: X-Real-IP, X-Forwarded-For
Connection: X-Forwarded-Uri, X-Original-URI
Authorization: Basic bm9ib2R5
Authorization: Bearer x.y
X-Authorizerd-Reason: x
Expect: 100-continue
Content-Type: text/plain""".splitlines()
_HEX: Final = "0123456789abcdefABCDEF"


def make_request(number: int, random: Random) -> bytes:
    """Return a request to a path of the API, or to one that differs a little from it."""
    method, target = random.choice(_TARGETS)
    headers = [f"Host: {ADDRESS}", f"Authorization: Basic {ALICE}", "Content-Length: 0"]
    chance = random.random()
    if chance < 0.5:
        method, target = _attack(method, target, random)
    if chance > 0.4:
        for _ in range(random.choice((1, 1, 2))):
            headers.insert(random.randrange(len(headers) + 1), random.choice(_HEADERS))
    head = "\r\n".join([f"{method} {target} HTTP/1.1", *headers, "", ""])
    head = head.replace("{ok}", f"ok-{number}").replace("{no}", f"no-{number}")
    return head.encode().replace("\xff".encode(), b"\xff")


def _attack(method: str, target: str, random: Random) -> tuple[str, str]:
    if random.random() < 0.5:
        target = random.choice(_ATTACKS)
    if random.random() < 0.2:
        method = random.choice(_METHODS)
    for _ in range(random.choice((0, 0, 1, 1, 2))):
        target = _change(target, random)
    return method, target


def _change(target: str, random: Random) -> str:
    match random.randrange(8):
        case 0 | 1 | 2:
            segments = target.split("/")
            segments.insert(random.randrange(1, len(segments) + 1), random.choice(_SEGMENTS))
            return "/".join(segments)
        case 3 | 4:
            return target + random.choice(_ENDS)
        case 5:
            return random.choice(_STARTS) + target
        case 6:
            place = random.randrange(len(target) + 1)
            piece = random.choice((*_SEGMENTS, "%" + random.choice(_HEX) + random.choice(_HEX)))
            return target[:place] + piece + target[place:]
        case _:
            place = random.randrange(len(target))
            changed = random.choice((f"%{ord(target[place]):02x}", target[place].swapcase(), ""))
            return target[:place] + changed + target[place + 1 :]
