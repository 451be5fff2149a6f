"""Store maintenance: size, retention, integrity checks, copies."""
