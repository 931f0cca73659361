"""How a client logs in to a cluster, from its JAAS line and its keys, with any mechanism.

**Invariant:** no error contains a password or a secret.
"""

from __future__ import annotations

from authorizerd.config.follow.settings import JAAS, AnyLogIn
from authorizerd.config.jaas import parse_log_in, parse_login_options
from authorizerd.config.kerberos import KERBEROS_LOGIN_MODULE, new_ticket_log_in
from authorizerd.config.oauth import (
    OAUTH_LOGIN_MODULE,
    InvalidLoginError,
    ReadKey,
    new_token_log_in,
)
from authorizerd.config.values import GSSAPI, OAUTHBEARER


def new_log_in(jaas: str | None, mechanism: str, read: ReadKey) -> AnyLogIn:
    """Return how to log in with a mechanism.

    Args:
        jaas: the JAAS line; None if it is not set.
        mechanism: one of ``CLIENT_MECHANISMS``.

    Raises:
        InvalidLoginError: a key is missing, or its value does not fit.
        InvalidValueError: the JAAS line is malformed.
    """
    if mechanism == OAUTHBEARER:
        options = {} if jaas is None else parse_login_options(jaas, (OAUTH_LOGIN_MODULE,))
        return new_token_log_in(read, options)
    if jaas is None:
        what = "a keytab" if mechanism == GSSAPI else "username and password"
        raise InvalidLoginError(
            JAAS, f"required for authentication: set it to a JAAS line with {what}"
        )
    if mechanism == GSSAPI:
        return new_ticket_log_in(read, parse_login_options(jaas, (KERBEROS_LOGIN_MODULE,)))
    return parse_log_in(jaas, mechanism)
