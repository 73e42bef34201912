"""Plain logistic regression of a table by statsmodels: the time to read it, and that of the fit."""
import argparse, json, resource, time

import pandas as pd, statsmodels.api as sm

ap = argparse.ArgumentParser(description=__doc__)
ap.add_argument('--data', required=True)
ap.add_argument('--target', required=True)
a = ap.parse_args()
began = time.perf_counter()
table = pd.read_csv(a.data)
read = time.perf_counter()
fit = sm.Logit(table.pop(a.target), sm.add_constant(table)).fit(disp=0)
fit.bse  # computed when it is asked for
fitted = time.perf_counter()
print(json.dumps(dict(read_seconds=read - began, fit_seconds=fitted - read, iterations=fit.mle_retvals['iterations'],
                      peak_mb=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)))
