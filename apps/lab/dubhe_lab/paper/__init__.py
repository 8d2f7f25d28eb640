"""The reproduction of the paper, and experiments beyond it.

Each experiment lists the measurements it needs (`cells.Cell`) and turns their results into text,
tables and pictures (`experiment.Section`). `cells.run_cells` measures each cell once and stores it
as a JSON file, so that an interrupted run can continue and experiments share cells.
"""
