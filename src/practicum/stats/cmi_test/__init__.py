"""Does X help to predict the mean of Y once Z is known? A p-value without a model of Y on X.

**What.** The conditional mean independence test of Zhang, Huang, Yang and Shao ("Testing
conditional mean independence using generative neural networks", ICML 2025, arXiv 2501.17345). The
null hypothesis is E[Y | X, Z] = E[Y | Z]. The statistic needs two things that can be estimated
separately, a regression of Y on Z and draws of X given Z, and is right on average when either of
them is; it then looks at *all* functions of X, through a kernel. Y may have several columns, X and
Z may be wide (an image region and the rest of the image).

**When.** You want to know whether a measurement, a group of columns or a part of an image still
matters for the mean of an outcome, beyond what the rest already says; effects may be nonlinear or
even (X², |X|), columns are correlated, and there are 60 to a few thousand rows. A t- or F-test
sees straight lines only, the generalised covariance measure misses even effects, permutation
importance has no p-value under correlation, KCI tests full independence (it rejects when only the
variance moves). Effects on the variance or the tails are invisible here, by design. Take care where
Z is wide and predicts X in part (an image region and the rest): errors of the two regressions
multiply, and what both miss is taken for an effect of X.

**How.** Out of the box both nuisances are kernel smoothers with leave-one-out residuals, all pairs
of rows are used, and the null distribution refits the regression for every draw: that keeps the
size where the published form over-rejects. Beside every p-value stands the rejection rate on null
data made from your own rows. Columns of X and Y that Z fixes (a copy, a threshold) are left out
with a warning; where nothing is left, p is 1. ``preset="paper"`` is the published form, networks
included (needs PyTorch, about a minute at 400 rows).

**Names.**

=================================  ================================================================
``ConditionalMeanTest``            the estimator: ``fit(X, y, Z)``, ``pvalue_``, ``effect()``
``conditional_mean_test``          the same as a function, returning a ``CMIResult``
``conditional_mean_importance``    many candidates of a data frame at once, Holm-adjusted
``statistic_matrix``               the matrix F of the statistic, from arrays and draws of yours
``ResidualSampler``                draws of X given Z: mean plus a borrowed residual
``GenerativeNetwork``              draws of X given Z: the published network
``gcm_test``, ``pcm_test``         the baselines, and ``nested_f_test``
=================================  ================================================================

**Example.** Does the body mass index of a diabetes patient matter for the course of the disease,
given nine other measurements?

>>> from sklearn.datasets import load_diabetes
>>> from practicum.stats.cmi_test import ConditionalMeanTest
>>> data = load_diabetes(as_frame=True)
>>> test = ConditionalMeanTest(random_state=0)
>>> test.fit(data.data[["bmi"]], data.target, data.data.drop(columns="bmi")).pvalue_ < 0.01
True
>>> print(test.result_.sentence("bmi", "progression", "the rest"))
Knowing the rest, bmi still helps to predict the mean of progression (p = ...).

Each of several candidates, given all others, adjusted for their number:

>>> from practicum.stats.cmi_test import conditional_mean_importance
>>> table = conditional_mean_importance(data.frame, "target", ["bmi", "age"], random_state=0)
>>> bool(table.p_adjusted["bmi"] < 0.05 < table.p_adjusted["age"])
True

From the command line: ``practicum use cmi-test pay.csv --response wage --candidates degree,age``,
or ``practicum use cmi-test image digits.npz --tiles 2 --out map.html``.

**Cost.** A default test, self-check included, takes less than 0.1 s at n = 400 with 25 + 25 columns
on one core, about half a second at n = 2000; time and memory grow as n², memory whatever the number
of draws. Rows must be independent; rows that belong together (visits of a patient) go into
``groups=``.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submod_attrs={
        "baselines": ["BaselineResult", "gcm_test", "nested_f_test", "pcm_test"],
        "conditional_mean": [
            "CMIResult",
            "ConditionalMeanTest",
            "conditional_mean_test",
        ],
        "importance": ["conditional_mean_importance"],
        "generators": ["GaussianConditional", "ResidualSampler"],
        "kernels": ["statistic_matrix"],
        "networks": ["GenerativeNetwork", "NetworkRegressor"],
        "simulate": ["GaussianDesign"],
        "smoother": ["KernelSmoother"],
    },
)
