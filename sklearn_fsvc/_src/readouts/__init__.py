"""Linear readouts of H, which are fitted while samples stream through a layer.

- Statistics of a ridge: sums over samples in `moments` and `packed_symmetric`, solved in
  `statistics` and `exact_solution`; `gather_statistics` computes them in a fit, and
  `running_statistics` in `partial_fit`, where `drift` monitors the error.
- Fewer samples than units: `dual` for a ridge, `row_space` for the softmax readout.
- The penalty: `penalty_search` by folds of `cross_validation`; `loo_penalty` by leave-one-out
  scores, which `leave_one_out` computes for a `row_sample` (drawn by `draw_sample`), and `press`
  for all samples.
- Other readouts: `softmax`, with `newton`, `log_loss` and `softmax_penalty`; `lms`.
- Predictions: scores by `linear`, and by `uncovered` far from all units; probabilities by
  `calibration` and `matrix_scaling`; sets by `conformal`, and intervals by `residuals`.

`estimators.readouts` has the readouts as parts of estimators.
"""
