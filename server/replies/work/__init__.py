"""Replies of the tools that do work: jobs, their results, the work of an agent."""
