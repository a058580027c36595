"""Writes the models next to it: small models of scikit-learn, converted by skl2onnx 1.20.

Run by hand where scikit-learn and skl2onnx are installed; tests read the files only.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from skl2onnx import to_onnx  # type: ignore[import-not-found]
from sklearn.datasets import make_classification, make_regression  # type: ignore[import-not-found]
from sklearn.ensemble import (  # type: ignore[import-not-found]
    GradientBoostingClassifier,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.impute import SimpleImputer  # type: ignore[import-not-found]
from sklearn.linear_model import (  # type: ignore[import-not-found]
    LinearRegression,
    LogisticRegression,
    Ridge,
)
from sklearn.naive_bayes import GaussianNB  # type: ignore[import-not-found]
from sklearn.pipeline import make_pipeline  # type: ignore[import-not-found]
from sklearn.preprocessing import (  # type: ignore[import-not-found]
    MinMaxScaler,
    Normalizer,
    PolynomialFeatures,
    StandardScaler,
)
from sklearn.svm import SVC, SVR  # type: ignore[import-not-found]

X, Y = make_classification(120, 6, n_informative=5, n_redundant=0, n_classes=3, random_state=0)
X = X.astype(np.float32)
TWO, NAMES = (Y > 0).astype(int), np.array(["ash", "birch", "cedar"])[Y]
XR, YR = make_regression(120, 6, random_state=0)
XR, YR = XR.astype(np.float32), YR / 50
SMALL = {"n_estimators": 6, "max_depth": 4, "random_state": 0}
FEW = {"n_estimators": 5, "max_depth": 3, "random_state": 0}
FITTED = {
    "random_forest": make_pipeline(StandardScaler(), RandomForestClassifier(**SMALL)).fit(X, NAMES),
    "random_forest_binary": RandomForestClassifier(**SMALL).fit(X, TWO),
    "forest_regressor": RandomForestRegressor(**SMALL).fit(XR, YR),
    "boosting": GradientBoostingClassifier(**FEW).fit(X, Y),
    "boosting_binary": GradientBoostingClassifier(**FEW).fit(X, TWO),
    "logistic": make_pipeline(SimpleImputer(), MinMaxScaler(), LogisticRegression()).fit(X, Y),
    "logistic_binary": LogisticRegression().fit(X, TWO),
    "ridge": make_pipeline(Normalizer(), Ridge()).fit(XR, YR),
    "svc": SVC(probability=True, random_state=0).fit(X, Y),
    "svc_binary": SVC(probability=True, random_state=0).fit(X, TWO),
    "svc_votes": SVC(kernel="poly").fit(X, Y),
    "svr": SVR().fit(XR, YR),
    "polynomial": make_pipeline(PolynomialFeatures(2), LinearRegression()).fit(XR, YR),
    "bayes": GaussianNB().fit(X, Y),
}

if __name__ == "__main__":
    for name, fitted in FITTED.items():
        last = fitted.steps[-1][1] if hasattr(fitted, "steps") else fitted
        options = {id(last): {"zipmap": False}} if hasattr(last, "classes_") else {}
        opset = {"": 17, "ai.onnx.ml": 3}
        model = to_onnx(fitted, X[:1], options=options, target_opset=opset)
        path = Path(__file__).parent / f"{name}.onnx"
        path.write_bytes(model.SerializeToString())
