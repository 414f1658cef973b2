"""The schema of the audit event stream, for readers in other languages: ``audit.proto``."""
