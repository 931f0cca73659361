"""The log over a simulated disk that crashes, tears, reorders and fails, by seeded schedules."""
