"""The fleet: clients, what they send, and the judge of what they are told.

Chaos and soak use these words, and stories the last one:

- A *client* makes *exchanges* at a *place*: it sends requests, and gives the answers to the judge.
- A client that changes ACLs is an *updater*.
- The *universe* has the ACLs and questions that a seed draws.
- The *judge* compares each answer with the states of the log that were allowed between the moment
  when the request was sent and the moment when the answer arrived.
"""
