"""The tables of the store, and how a store of an earlier version becomes one of this."""

MIGRATIONS = (
    """
    CREATE TABLE notes (
        number INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE, name TEXT NOT NULL UNIQUE,
        text TEXT NOT NULL, sha256 TEXT NOT NULL, words INTEGER NOT NULL,
        state TEXT NOT NULL DEFAULT 'open' CHECK (state IN ('open', 'finished')),
        holder TEXT NOT NULL DEFAULT '', hold_until REAL NOT NULL DEFAULT 0,
        version INTEGER NOT NULL DEFAULT 0, changed_by TEXT NOT NULL DEFAULT '', changed_at TEXT NOT NULL DEFAULT '',
        finished_by TEXT NOT NULL DEFAULT '', finished_at TEXT NOT NULL DEFAULT ''
    );
    CREATE TABLE predictions (
        id INTEGER PRIMARY KEY AUTOINCREMENT, note TEXT NOT NULL REFERENCES notes (id),
        model_digest TEXT NOT NULL, explainer TEXT NOT NULL, at TEXT NOT NULL, body TEXT NOT NULL
    );
    CREATE INDEX predictions_of_note ON predictions (note, id);
    CREATE TABLE decisions (
        note TEXT NOT NULL REFERENCES notes (id), code TEXT NOT NULL,
        verdict TEXT NOT NULL CHECK (verdict IN ('accept', 'reject')), place INTEGER NOT NULL,
        origin TEXT NOT NULL CHECK (origin IN ('model', 'added', 'changed')), replaces TEXT NOT NULL,
        prediction INTEGER, probability REAL, by TEXT NOT NULL, at TEXT NOT NULL,
        PRIMARY KEY (note, code)
    );
    CREATE TABLE marks (
        note TEXT NOT NULL REFERENCES notes (id), code TEXT NOT NULL, start INTEGER NOT NULL, "end" INTEGER NOT NULL,
        by TEXT NOT NULL, PRIMARY KEY (note, code, start, "end")
    );
    CREATE TABLE audit (
        id INTEGER PRIMARY KEY AUTOINCREMENT, at TEXT NOT NULL, who TEXT NOT NULL, role TEXT NOT NULL,
        action TEXT NOT NULL, note TEXT NOT NULL, version INTEGER NOT NULL, code TEXT NOT NULL,
        before TEXT NOT NULL, after TEXT NOT NULL, model_digest TEXT NOT NULL, request TEXT NOT NULL,
        previous TEXT NOT NULL, hash TEXT NOT NULL
    );
    CREATE TRIGGER audit_stays BEFORE UPDATE ON audit BEGIN SELECT RAISE (ABORT, 'the audit trail only grows'); END;
    CREATE TRIGGER audit_keeps BEFORE DELETE ON audit BEGIN SELECT RAISE (ABORT, 'the audit trail only grows'); END;
    CREATE TABLE requests (
        key TEXT NOT NULL PRIMARY KEY, note TEXT NOT NULL, answer TEXT NOT NULL, at REAL NOT NULL
    );
    """,
)
"""One step for each version; what is here is never changed, only added to."""
