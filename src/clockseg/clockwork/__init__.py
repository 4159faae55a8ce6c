"""The paper's idea: stages, clocks, schedules, carry, and one frame of a clockwork network.

Read network.py, clock.py and carry.py for the nouns, then ``step`` in step.py, which runs one frame. tests/test_tiny.py has the
same on strings. From the terms of the paper (Shelhamer et al., 2016) to the code:

* the cached scores y of a stage: ``Cell.held`` (step.py); the cells of all stages are in ``Memory``
* the clock function, which decides whether a stage fires: ``Clock`` and its answer ``Decision`` (clock.py); what it declares
  about itself, such as the maps it watches: ``Facts`` (clock.py)
* fixed rates (section 4.2): ``Every`` (clock.py); ``fixed_rate``, ``alternating`` and ``exponential`` (clockseg.clocks.rates)
* pipelining (section 4.1): ``Schedule.delays`` (schedule.py); ``pipelined`` (clockseg.clocks.rates)
* the adaptive clock (section 4.3): ``Change`` and ``adaptive`` (clockseg.clocks.threshold)
* f_H, which carries held values over to the next frame: ``Carry``; the paper's is ``Identity`` (carry.py)
* one frame, in which stages fire or hold and scores are fused: ``step`` (step.py)
* a fill: a frame on which every stage fires, as on the first, and from which frames are counted

The values between the parts of a network are lazy (lazy.py): an ``Executor`` makes the calls that are pending when one is read. The
executors of clockseg.execution make them in other ways.
"""
