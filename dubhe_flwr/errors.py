"""The errors of this package: one tree, each message a sentence that says what to do."""


class DubheError(Exception):
    """Base of every error that this package raises on purpose."""


class SettingsError(DubheError, ValueError):
    """A setting that cannot work; the message names the value and the remedy."""


class CheckpointError(DubheError):
    """A saved state that cannot be taken up; the message names the key, file or version."""


class DataError(DubheError):
    """A data set that is missing or unfit; the message says what to fetch and where to put it."""


class InvalidCiphertextError(DubheError):
    """Bytes that are not a ciphertext under the key at hand."""


class DecryptionError(DubheError):
    """A decryption that failed a check. It carries no detail, and so is of no use as an oracle."""


class SealError(DubheError):
    """A sealed key that does not open for this recipient and context. It carries no detail."""


class ProtocolError(DubheError):
    """A message that cannot be accepted."""


class MalformedMessageError(ProtocolError):
    """A message whose fields are missing, unknown, of a wrong type or of a wrong size."""


class StaleMessageError(ProtocolError):
    """A message of another protocol version, epoch, stage or request than the one expected."""


class RefusedError(ProtocolError):
    """A well-formed request that a guard refuses, such as a sum over too few clients."""


class UntrustedError(ProtocolError):
    """A key or bundle without a signature by a pinned key; somebody may have substituted it."""


class QuorumError(DubheError):
    """Too few nodes remain to go on; the message says how many there are and are needed."""
