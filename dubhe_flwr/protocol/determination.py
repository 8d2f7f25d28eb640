"""`Tries`: from how many tentative selections an agent chooses (section 5.3)."""

from dataclasses import dataclass

from dubhe_flwr.errors import SettingsError


@dataclass(frozen=True)
class Tries:
    """The best of H tentative selections, as in the paper.

    Parameters
    ----------
    number : int (default: 20)
        ``H``. With 1 there is no choice: no agent, and no sum over few clients.
    pool : int (default: 1)
        Average number of volunteers for a try, as a multiple of K, up to a quarter of all clients
        plus seven. K of them are taken at random.

    Raises
    ------
    SettingsError
        If a number is below 1.
    """

    number: int = 20
    pool: int = 1

    def __post_init__(self) -> None:
        for name, number in (("number", self.number), ("pool", self.pool)):
            if type(number) is not int or not 1 <= number < 2**31:
                raise SettingsError(f"Tries({name}={number!r}) must be a whole number from 1 up.")

    @property
    def has_agent(self) -> bool:
        """Whether an agent chooses; if not, nodes register no label distribution."""
        return self.number > 1
