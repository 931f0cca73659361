"""Run the log on a simulated disk that crashes, tears, reorders and fails, by seeded schedules."""
