"""A client of OpenAI-compatible chat endpoints: concurrent, with retries, a budget, and every answer kept on disk."""
