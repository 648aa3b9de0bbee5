"""Predictions as other programs read them: tables, brat's standoff files, FHIR."""
