"""Models of contact by name, for parametrized tests."""

import tiburon as tb

CONTACTS = {
    "rigid": tb.RigidContact(),
    "compliant": tb.CompliantContact(),
    "exact": tb.ExactContact(),
}
