"""Made-up notes written in every format that sources are read from; nothing here comes from a published corpus."""

import csv
import gzip
import io
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import polars

from plant.data.sources import EMBEDDED, PUBLISHED, SourceOptions
from plant.data.sources.cantemist import SPLITS as CANTEMIST_SETS
from plant.data.sources.records import TABLES
from plant.types import Note, Span

FOLDER = "folder of "

NOTEEVENTS = [
    "ROW_ID",
    "SUBJECT_ID",
    "HADM_ID",
    "CHARTDATE",
    "CHARTTIME",
    "STORETIME",
    "CATEGORY",
    "DESCRIPTION",
    "CGID",
    "ISERROR",
    "TEXT",
]
CODES3 = ["ROW_ID", "SUBJECT_ID", "HADM_ID", "SEQ_NUM", "ICD9_CODE"]
TITLES3 = ["ROW_ID", "ICD9_CODE", "SHORT_TITLE", "LONG_TITLE"]
DISCHARGE = ["note_id", "subject_id", "hadm_id", "note_type", "note_seq", "charttime", "storetime", "text"]
DIAGNOSES4 = ["subject_id", "hadm_id", "seq_num", "icd_code", "icd_version"]
PROCEDURES4 = ["subject_id", "hadm_id", "seq_num", "chartdate", "icd_code", "icd_version"]
TITLES4 = ["icd_code", "icd_version", "long_title"]

Rows = Iterable[Sequence[object]]

CASE = 'Varón con "masa" pulmonar.\r\nCarcinoma de células grandes con metástasis.'
MARK = CASE.index("Carcinoma")
TAIL = CASE.index("metástasis")
ANNOTATION = (
    f"T1\tMORFOLOGIA_NEOPLASIA {MARK} {MARK + 28}\tCarcinoma de células grandes\n"
    "#1\tAnnotatorNotes T1\t8012/3\n"
    f"T2\tMORFOLOGIA_NEOPLASIA {MARK} {MARK + 9};{TAIL} {TAIL + 10}\tCarcinoma metástasis\n"
    "#2\tAnnotatorNotes T2\t8000/6/H\n"
    "T3\tMORFOLOGIA_NEOPLASIA 0 5\tVarón\n"
)


def table(path: Path, header: Sequence[str], rows: Rows) -> None:
    """Write a table the way the published files are written: strings in quotes, gaps empty."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with gzip.open(path, "wt", newline="") if path.suffix == ".gz" else path.open("w", newline="") as file:
        file.write(",".join(f'"{name}"' for name in header) + "\n")
        writer = csv.writer(file, quoting=csv.QUOTE_NONNUMERIC, lineterminator="\n")
        for row in rows:
            writer.writerow(["" if cell is None else cell for cell in row])


def event(
    row: int, admission: int | str | None, text: str, *, kind: str = "Report", error: str = "", **also: str
) -> list[object]:
    category = also.get("category", "Discharge summary")
    return [
        row,
        also.get("patient", 1),
        admission,
        also.get("date", "2151-08-04"),
        "",
        "",
        category,
        kind,
        None,
        error,
        text,
    ]


def mimic3(folder: Path, events: Rows, diagnoses: Rows, procedures: Rows = (), *, suffix: str = ".csv") -> Path:
    table(folder / f"NOTEEVENTS{suffix}", NOTEEVENTS, events)
    table(folder / f"DIAGNOSES_ICD{suffix}", CODES3, diagnoses)
    table(folder / f"PROCEDURES_ICD{suffix}", CODES3, procedures)
    table(folder / f"D_ICD_DIAGNOSES{suffix}", TITLES3, [[1, "4019", "Hypertension NOS", "Unspecified hypertension"]])
    table(folder / f"D_ICD_PROCEDURES{suffix}", TITLES3, [[1, "3893", "Venous cath NEC", "Venous catheterization"]])
    return folder


def mimic4(folder: Path, notes: Rows, diagnoses: Rows, procedures: Rows = ()) -> Path:
    table(folder / "note" / "discharge.csv.gz", DISCHARGE, notes)
    table(folder / "hosp" / "diagnoses_icd.csv.gz", DIAGNOSES4, diagnoses)
    table(folder / "hosp" / "procedures_icd.csv.gz", PROCEDURES4, procedures)
    table(folder / "hosp" / "d_icd_diagnoses.csv.gz", TITLES4, [["I10   ", 10, "Essential (primary) hypertension"]])
    return folder


def summary(patient: int | str, admission: int | str | None, text: str, sequence: int = 1) -> list[object]:
    return [f"{patient}-DS-{sequence}", patient, admission, "DS", sequence, "2180-05-07 00:00:00", "", text]


def put(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode())


def cantemist(folder: Path, *, suffix: str = "") -> Path:
    for name, split, note in (("train-set", "train", "cc_case1"), ("dev-set1", "dev1", "cc_case2")):
        root = folder / f"{name}{suffix}"
        put(root / "cantemist-coding" / "txt" / f"{note}.txt", CASE)
        put(root / "cantemist-coding" / f"{split}-coding.tsv", f"file\tcode\n{note}\t8012/3\n{note}\t8000/6/H\n")
        for task in ("cantemist-ner", "cantemist-norm"):
            put(root / task / f"{note}.txt", CASE)
            put(root / task / f"{note}.ann", ANNOTATION)
    put(folder / f"dev-set1{suffix}" / "cantemist-norm" / "cc_case3.txt", "Sin tumor.")
    put(folder / f"dev-set1{suffix}" / "cantemist-norm" / "cc_case3.ann", "")
    put(folder / "background-set" / "cc_case2.txt", "Un caso de dev.")
    put(folder / "background-set" / "cc_case9.txt", "Otro caso.")
    return folder


def codiesp(folder: Path) -> Path:
    for split, note in (("train", "S0004-1"), ("dev", "S0004-2")):
        root = folder / split
        put(root / "text_files" / f"{note}.txt", CASE)
        put(root / "text_files_en" / f"{note}.txt", "Man with a mass.")
        put(root / f"{split}D.tsv", f"{note}\tr91.8\n{note}\tc34.90\n{note}\tr91.8\n")
        put(root / f"{split}P.tsv", f"{note}\tbw24zzz\n" if split == "train" else "")
        marks = [
            f"{note}\tDIAGNOSTICO\tr91.8\tmasa pulmonar\t11 24",
            f'{note}\tDIAGNOSTICO\tc34.90\t"masa" Carcinoma\t10 16;{MARK} {MARK + 9}',
            f"{note}\tPROCEDIMIENTO\tbw24zzz\tcon\t6 9",
        ]
        put(root / f"{split}X.tsv", "\n".join(marks) + "\n")
    put(folder / "dev" / "text_files" / "S0004-3.txt", "Sin códigos.")
    put(folder / "dev" / "text_files_en" / "S0004-3.txt", "No codes.")
    put(folder / "test" / "text_files" / "S0004-4.txt", "Sin publicar.")
    put(folder / "test" / "text_files_en" / "S0004-4.txt", "Not published.")
    return folder


@dataclass(frozen=True)
class Sample:
    """How notes are written into a folder, which gives the name of the source; and what of a note is lost thereby."""

    write: Callable[[Path, Sequence[Note]], str]
    lacks: frozenset[str] = frozenset()  # fields of a note that the format has no place for
    options: SourceOptions = field(default_factory=SourceOptions)
    counted: bool = True  # the number of notes is known before they are read


def delimited(rows: Sequence[dict[str, str]], delimiter: str = ",") -> bytes:
    written = io.StringIO(newline="")
    writer = csv.DictWriter(written, list(rows[0]), delimiter=delimiter, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return written.getvalue().encode()


def json_lines(rows: Sequence[dict[str, object]]) -> bytes:
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


def parquet(rows: Sequence[dict[str, object]]) -> bytes:
    written = io.BytesIO()
    polars.DataFrame(rows).write_parquet(written)
    return written.getvalue()


def as_record(note: Note) -> dict[str, object]:
    """A note as a line of JSON has it."""
    marks = [{"start": s.start, "end": s.end, "label": code} for code, spans in note.evidence.items() for s in spans]
    return {
        "id": note.id, "text": note.text, "labels": list(note.codes), "split": note.split, "group": note.group,
        "evidence": marks,
    }  # fmt: skip


def as_cells(note: Note) -> dict[str, str]:
    """A note as a row of a spreadsheet has it."""
    record = as_record(note)
    return {
        "id": note.id, "text": note.text, "codes": ";".join(note.codes), "split": note.split, "group": note.group,
        "evidence": json.dumps(record["evidence"]),
    }  # fmt: skip


CONTENTS: dict[str, Callable[[Sequence[Note]], bytes]] = {
    "csv": lambda notes: delimited([as_cells(note) for note in notes]),
    "tsv": lambda notes: delimited([as_cells(note) for note in notes], "\t"),
    "jsonl": lambda notes: json_lines([as_record(note) for note in notes]),
    "ndjson": lambda notes: json_lines([as_record(note) for note in notes]),
    "parquet": lambda notes: parquet([as_record(note) for note in notes]),
}
"""What a file of each kind of table holds."""


def write_table(folder: Path, notes: Sequence[Note], *, kind: str, name: str = "notes") -> str:
    content = CONTENTS[kind.removesuffix(".gz")](notes)
    path = folder / f"{name}.{kind}"
    path.write_bytes(gzip.compress(content) if kind.endswith(".gz") else content)
    return str(path)


def write_folder(folder: Path, notes: Sequence[Note], *, kind: str) -> str:
    """One file for each split, whose name alone says which."""
    for split in {note.split for note in notes}:
        write_table(folder, [_without_split(note) for note in notes if note.split == split], kind=kind, name=split)
    return str(folder)


def _without_split(note: Note) -> Note:
    return replace(note, split="")


def write_mimic3(folder: Path, notes: Sequence[Note]) -> str:
    events = [event(row, note.id, note.text, patient=note.group) for row, note in enumerate(notes)]
    codes = [[1, note.group, note.id, 1, code.replace(".", "")] for note in notes for code in note.codes]
    mimic3(folder, events, codes)
    return write_lists(folder, notes)


def write_mimic4(folder: Path, notes: Sequence[Note]) -> str:
    codes = [[note.group, note.id, 1, code.replace(".", ""), 10] for note in notes for code in note.codes]
    mimic4(folder, [summary(note.group, note.id, note.text) for note in notes], codes)
    return write_lists(folder, notes)


def write_lists(folder: Path, notes: Sequence[Note]) -> str:
    """The published lists of ids, one for each split."""
    for split in {note.split for note in notes}:
        put(folder / f"{split}_full_hadm_ids.csv", "".join(f"{note.id}\n" for note in notes if note.split == split))
    return str(folder)


def write_cantemist(folder: Path, notes: Sequence[Note]) -> str:
    sets = {split: name for name, split in reversed(CANTEMIST_SETS.items())}
    for split in {note.split for note in notes}:
        root, own = folder / sets[split], [note for note in notes if note.split == split]
        put(root / "cantemist-coding" / f"{split}-coding.tsv", code_table(own))
        for note in own:
            put(root / "cantemist-norm" / f"{note.id}.txt", note.text)
            put(root / "cantemist-norm" / f"{note.id}.ann", standoff(note))
    return str(folder)


def write_codiesp(folder: Path, notes: Sequence[Note]) -> str:
    for split in {note.split for note in notes}:
        root, own = folder / split, [note for note in notes if note.split == split]
        put(root / f"{split}D.tsv", code_table(own))
        put(root / f"{split}X.tsv", "".join(map(evidence_rows, own)))
        for note in own:
            put(root / "text_files" / f"{note.id}.txt", note.text)
    return str(folder)


def code_table(notes: Sequence[Note]) -> str:
    return "file\tcode\n" + "".join(f"{note.id}\t{code}\n" for note in notes for code in note.codes)


def standoff(note: Note) -> str:
    """The evidence of a note as brat writes it, one mark for each code, in fragments."""
    marks = enumerate(note.evidence.items(), start=1)
    return "".join(
        f"T{number}\tMORFOLOGIA_NEOPLASIA {fragments(spans)}\tmarked\n#{number}\tAnnotatorNotes T{number}\t{code}\n"
        for number, (code, spans) in marks
    )


def evidence_rows(note: Note) -> str:
    """The evidence of a note as CodiEsp writes it."""
    marks = note.evidence.items()
    return "".join(f"{note.id}\tDIAGNOSTICO\t{code}\tmarked\t{fragments(spans)}\n" for code, spans in marks)


def fragments(spans: Sequence[Span]) -> str:
    return ";".join(f"{span.start} {span.end}" for span in spans)


SAMPLES = {
    **{name: Sample(lambda _folder, _notes, name=name: name) for name in EMBEDDED},
    "mimic3": Sample(write_mimic3, lacks=frozenset({"evidence"})),
    "mimic4": Sample(write_mimic4, lacks=frozenset({"evidence"}), options=SourceOptions(min_code_count=1)),
    "cantemist": Sample(write_cantemist, lacks=frozenset({"group"})),
    "codiesp": Sample(write_codiesp, lacks=frozenset({"group"})),
}
"""Corpora by name; an embedded one has notes of its own and needs no writing."""


def formats() -> list[str]:
    """The name of every format that the package declares: corpora, kinds of tables plain and gzipped, folders."""
    plain = [(kind, kind) for kind in TABLES]
    packed = [(kind, f"{kind}.gz") for kind, table in TABLES.items() if table.packs]
    folders = [f"{FOLDER}{name}" for kind, name in [*plain, *packed] if TABLES[kind].makes_folders]
    return [*EMBEDDED, *PUBLISHED, *(name for _, name in [*plain, *packed]), *folders]


def sample_of(name: str) -> Sample:
    """How notes are written in the format of this name."""
    if name in SAMPLES:
        return SAMPLES[name]
    write, kind = (write_folder if name.startswith(FOLDER) else write_table), name.removeprefix(FOLDER)
    counted = TABLES[kind.removesuffix(".gz")].count is not None
    return Sample(partial(write, kind=kind), counted=counted)
