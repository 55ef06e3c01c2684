"""The bench edge: a small, honest owner of sessions, for a handset to connect to.

It is no product. People who write real edges can read it, in this order:

===============  =====================================================================
``history``      the conversation as the model sees it, and what truncation does to it
``outboxes``     durable events: each takes effect once
``terms``        what is asked of a session before the first word
``alerts``       what must reach the person, and is offered until it did
``lives``        the lives of turns and responses, as tables
``events``       what each durable event does to a session (``alert_events``: about alerts)
``greeting``     the first exchange: who gets a session, and which
``owner``        what an edge does with each message (pure)
``capture``      the person's audio: RTP and backfill, to the sample
``provider``     a scripted stand-in for a model service
``pacing``       sending audio ahead, but never far
``desk``         these, joined for one handset
``edge``         all handsets; ``peer``, ``rtc``: aiortc; ``server``: WHIP and control
``process``      all of it as a process, for tests
===============  =====================================================================

    $ EDGE_CREDENTIAL=abc python -m handset.bench.edge --credential-env EDGE_CREDENTIAL
"""
