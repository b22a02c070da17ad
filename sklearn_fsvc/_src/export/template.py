"""The parts of a header of C99, with places for names, numbers and steps."""

from string import Template

HEADER = Template("""\
/* $title
 *
 * Written by sklearn_fsvc $version. C99; nothing is allocated. $n_bytes bytes of constants.
 * Include it in one file only, and link with -lm.
 */
#ifndef ${guard}_H
#define ${guard}_H

#include <math.h>
#include <stdint.h>

#define ${guard}_N_FEATURES $n_features
#define ${guard}_N_OUTPUTS $n_outputs

$tables

$functions
#endif
""")

OUTPUTS = Template("""\
/* $what */
static inline void $function(const $row_type *x, $answer *y)
{
    const $unit_type *unit = ${name}_units;
    const $real *weight = ${name}_readout;
    $real total[$n_outputs] = {0};
$before    for (int j = 0; j < $n_units; j++) {
        $sum_type sum = 0;
        for (int k = 0; k < $n_inputs; k++, unit++) {
            $add
        }
$again$formula        for (int o = 0; o < $n_outputs; o++)
            total[o] += h * *weight++;
$watch    }
    for (int o = 0; o < $n_outputs; o++)
        y[o] = $scaled + ${name}_intercept[o];
$uncovered}
""")

# A row through a linear map; infinity less infinity is as far away as infinity.
MAP = """\
{real} mapped[{n_inputs}];
for (int i = 0; i < {n_inputs}; i++) {{
    mapped[i] = 0;
    for (int k = 0; k < {n_features}; k++)
        mapped[i] += $row[k] * {name}_map[k * {n_inputs} + i];
    if (mapped[i] != mapped[i])
        mapped[i] = ({real})HUGE_VAL;
}}
"""

# Products of huge numbers: infinite ones may have had another sign than their sum.
AGAIN = Template("""\
        if (!(sum - sum == 0)) {
            double exact = 0;
            for (int k = 0; k < $n_features; k++)
                exact += (double)$row[k]$scale * (unit[k - $n_features]$scale);
            sum = ($real)(exact$grown);
        }
""")

UNCOVERED = Template("""\
    if (activity <= $least) /* no unit covers the row: the nearest one decides */
        for (int o = 0; o < $n_outputs; o++)
            y[o] = $score;
""")

WATCH = """\
        activity += h;
        if (j == 0 || d < least) {
            least = d;
            nearest = j;
        }
"""

CLASS = Template("""\
/* The class of a row. */
static inline $label_type${name}_predict(const $row_type *x)
{
    $answer y[$n_outputs];
    int best = 0;
    ${name}_scores(x, y);
$choose    return ${name}_classes[best];
}
""")

LARGEST = """\
    for (int o = 1; o < {n_outputs}; o++)
        if (y[o] > y[best])
            best = o;
"""

TERMS = {
    "manhattan": "sum += {abs}({row}[k] - *unit);",
    "sqeuclidean": """\
const {real} apart = {row}[k] - *unit;
            sum += apart * apart;""",
    "product": "sum += {row}[k] * *unit;",
}
# Of bytes, in integers.
MANHATTAN_OF_BYTES = """\
const int apart = {row}[k] - *unit;
            sum += apart < 0 ? -apart : apart;"""
