"""Formulas as MathML, by docutils: they can be read without a network and without scripts."""

from docutils.nodes import SkipNode
from docutils.utils.math.latex2mathml import tex2mathml


def inline(writer, node):
    writer.body.append(tex2mathml(node.astext()))
    raise SkipNode


def block(writer, node):
    writer.body.append(tex2mathml(node.astext(), as_block=True))
    raise SkipNode


def setup(app):
    app.add_html_math_renderer("mathml", (inline, None), (block, None))
    return {"parallel_read_safe": True}
