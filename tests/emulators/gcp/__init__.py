"""Emulator of Google Cloud's REST APIs, validated by Google's discovery documents."""
