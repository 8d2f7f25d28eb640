"""The package's errors: one tree under `DubheError`. Each message says what to do."""


class DubheError(Exception):
    """Base class of every error that this package raises on purpose."""


class SettingsError(DubheError, ValueError):
    """An invalid setting; the message names the value and says how to fix it."""


class CheckpointError(DubheError):
    """A saved state that cannot be loaded; the message names the key, file or version."""


class DataError(DubheError):
    """A missing or unsuitable data set; the message says what to provide, and where."""


class InvalidCiphertextError(DubheError):
    """Bytes that are not a ciphertext under the given key."""


class DecryptionError(DubheError):
    """A decryption that failed a check. It has no detail, so that it cannot serve as an oracle."""


class SealError(DubheError):
    """A sealed key that does not open for this recipient and context. It has no detail."""


class ProtocolError(DubheError):
    """A message that cannot be accepted."""


class MalformedMessageError(ProtocolError):
    """A message with fields that are missing, unknown, or of the wrong type or size."""


class StaleMessageError(ProtocolError):
    """A message for a protocol version, epoch, stage or request other than the expected one."""


class RefusedError(ProtocolError):
    """A well-formed request that a guard refuses, such as a sum over too few clients."""


class UnprovenError(RefusedError):
    """A sum that a member of the committee has not proved to this node."""


class DailyLimitError(RefusedError):
    """A request beyond the owner's daily limit, which the node refuses for today only."""


class UntrustedError(ProtocolError):
    """A key, roster or appointment without a trusted signature: it may have been substituted."""


class QuorumError(DubheError):
    """A round that cannot go on, usually because too few nodes remain; the message says why."""
