"""Vaults: how nodes hide their numbers, how the server adds them up, and who can open a sum."""

from collections.abc import Mapping
from typing import Final

from dubhe_flwr.he.layout import Slots
from dubhe_flwr.protocol.vaults.committee import Committee
from dubhe_flwr.protocol.vaults.paillier import Paillier
from dubhe_flwr.protocol.vaults.plain import Plain
from dubhe_flwr.protocol.vaults.vault import Seat, SumName, Vault
from dubhe_flwr.protocol.wire.announced import JoinRequest, VaultName

__all__ = ["Seat", "SumName", "Vault", "vault_of"]

_VAULTS: Final[Mapping[str, type[Vault]]] = {
    VaultName.PLAIN: Plain,
    VaultName.PAILLIER: Paillier,
    VaultName.COMMITTEE: Committee,
}


def vault_of(announced: JoinRequest, fields: Mapping[str, Slots]) -> Vault:
    """Return the announced vault, for vectors of these shapes."""
    return _VAULTS[announced.vault](announced, fields)
