"""Accepted codes as a FHIR R4 Bundle: a Condition for each diagnosis, a Procedure for each procedure.

What a coder proposes is `provisional`, what a person accepted `confirmed`; codes below the threshold are left out, a
reader would take them for diagnoses. Evidence are the words with their places (code points) in the note, which a
DocumentReference names by id, size and hash; its text is not repeated. Extensions are in our own name space.
"""

import base64
import hashlib
import uuid
from collections.abc import Iterable, Mapping
from typing import Any

from plant.codes.systems import JOINED, SYSTEMS, normal_form, single_system
from plant.types import Evidence, Note, Prediction, ScoredCode

Resource = dict[str, Any]
URIS: Mapping[str, str] = {
    "icd10cm": "http://hl7.org/fhir/sid/icd-10-cm",
    "icd10pcs": "http://www.cms.gov/Medicare/Coding/ICD10",
    "icd9-diagnosis": "http://hl7.org/fhir/sid/icd-9-cm",
    "icd9-procedure": "urn:oid:2.16.840.1.113883.6.104",
    "icdo3": "urn:oid:2.16.840.1.113883.6.43.1",
}
PROCEDURES = ("icd10pcs", "icd9-procedure")
TERMINOLOGY = "http://terminology.hl7.org/CodeSystem"
OURS = "urn:plant-xmtc:fhir"
NAMESPACE = uuid.uuid5(uuid.NAMESPACE_URL, OURS)


def bundle(coded: Iterable[tuple[Note, Prediction]], *, system: str, status: str = "provisional") -> Resource:
    """One Bundle of all that notes were coded with."""
    entries = [entry for note, prediction in coded for entry in _entries(note, prediction, system, status)]
    return {"resourceType": "Bundle", "type": "collection", "entry": entries}


def _entries(note: Note, prediction: Prediction, system: str, status: str) -> list[Resource]:
    document = _document(note)
    accepted = [scored for scored in prediction.ranked if scored.accepted]
    found = [document, *(_resource(scored, note, _single(scored.code, system), status) for scored in accepted)]
    return [{"fullUrl": _url(resource), "resource": resource} for resource in found]


def _resource(scored: ScoredCode, note: Note, single: str, status: str) -> Resource:
    document: Resource = {"reference": _url(_document(note))}
    same: Resource = {
        "id": str(uuid.uuid5(NAMESPACE, f"{note.id}\n{scored.code}\n{scored.probability!r}")),
        "extension": [{"url": f"{OURS}:probability", "valueDecimal": round(scored.probability, 6)}],
        "code": _concept(scored, single),
        "subject": _subject(note),
    }
    if single in PROCEDURES:  # a Procedure has no evidence of its own: its reason is the document
        spans = [_span(one) for one in scored.evidence]
        return {
            **same,
            "resourceType": "Procedure",
            "status": "unknown",
            "extension": [*same["extension"], *spans],
            "reasonReference": [document],
        }
    evidence = [_evidence(one, document) for one in scored.evidence]
    return {
        **same,
        "resourceType": "Condition",
        "verificationStatus": {"coding": [{"system": f"{TERMINOLOGY}/condition-ver-status", "code": status}]},
        "category": [{"coding": [{"system": f"{TERMINOLOGY}/condition-category", "code": "encounter-diagnosis"}]}],
        **({"evidence": evidence} if evidence else {}),
    }


def _concept(scored: ScoredCode, single: str) -> Resource:
    coding = {"system": URIS.get(single, ""), "code": printable(scored.code), "display": printable(scored.description)}
    return {"coding": [{name: value for name, value in coding.items() if value}]}


def _single(code: str, system: str) -> str:
    """The system of a code; none for a hospital's own."""
    known = system in (*SYSTEMS, *JOINED) and normal_form(code, system) == code
    return single_system(code, system) if known else ""


def _evidence(one: Evidence, document: Resource) -> Resource:
    words = printable(one.text)
    return {
        "extension": [_span(one)],
        **({"code": [{"text": words}]} if words else {}),
        "detail": [document],
    }


def _span(one: Evidence) -> Resource:
    places = [{"url": name, "valueInteger": getattr(one, name)} for name in ("start", "end")]
    return {
        "url": f"{OURS}:span",
        "extension": [*places, {"url": "weight", "valueDecimal": round(one.weight, 6)}],
    }


def _document(note: Note) -> Resource:
    content = note.text.encode("utf-8", "surrogatepass")
    digest = base64.b64encode(hashlib.sha1(content).digest()).decode()  # the hash that FHIR asks for
    attachment = {"contentType": "text/plain; charset=utf-8", "size": len(content), "hash": digest}
    return {
        "resourceType": "DocumentReference",
        "id": str(uuid.uuid5(NAMESPACE, f"{note.id}\n{digest}")),
        **({"identifier": [{"system": f"{OURS}:note", "value": name}]} if (name := printable(note.id)) else {}),
        "status": "current",
        "subject": _subject(note),
        "content": [{"attachment": attachment}],
    }


def _subject(note: Note) -> Resource:
    """Whose note it is, as far as the notes say."""
    group = printable(note.group)
    return {"identifier": {"system": f"{OURS}:patient", "value": group}} if group else {"display": "not named"}


def _url(resource: Resource) -> str:
    return f"urn:uuid:{resource['id']}"


def printable(text: str) -> str:
    """A text as FHIR's strings can hold it: no control characters, and not nothing but blanks."""
    return " ".join("".join(letter if letter.isprintable() else " " for letter in text).split())
