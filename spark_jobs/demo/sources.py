"""All generators by name, each with its pace, and the order in which their rows are due."""

from __future__ import annotations


# At 20 trades a second: 10 readings, 4 sightings, 4 clicks, 2 bookings of the shop; 6 readings of
# machines, 4 plays, 4 card payments, 6 connections, 2 events of the hotel, 6 requests.
