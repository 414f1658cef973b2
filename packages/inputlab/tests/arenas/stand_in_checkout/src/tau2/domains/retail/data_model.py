"""Stand-in database."""

from typing import Any

from pydantic import BaseModel


class RetailDB(BaseModel):
    orders: dict[str, Any]
