"""Watching a process live: has it changed since the reference, and by how much?"""
