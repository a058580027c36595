"""Labels and scores of forests by scikit-learn, XGBoost and LightGBM, converted to ONNX."""

import lightgbm
import numpy as np
import onnxruntime
import xgboost
from onnxmltools.convert import convert_lightgbm, convert_xgboost
from onnxmltools.convert.common.data_types import FloatTensorType
from skl2onnx import to_onnx
from sklearn.ensemble import (
    ExtraTreesClassifier,
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    HistGradientBoostingRegressor,
    IsolationForest,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

rng = np.random.default_rng(0)
x = rng.standard_normal((600, 8)).astype(np.float32)
value = (x[:, 0] * x[:, 1] + np.sin(2 * x[:, 2])).astype(np.float32)
classes = (value > 0).astype(np.int64) + (value > 1)
gaps = x.copy()
gaps[rng.random(x.shape) < 0.1] = np.nan


def of_sklearn(model, data, target, **options):
    fitted = model.fit(data, target)
    return to_onnx(fitted, x[:1], target_opset={"": 17, "ai.onnx.ml": 3}, options=options or None)


def of_boosters(convert, model, data, target):
    fitted = model.fit(data, target)
    return convert(fitted, initial_types=[("X", FloatTensorType([None, 8]))], target_opset=15)


plain = {"zipmap": False}
boost = {"n_estimators": 40, "max_depth": 6}
forests = [
    of_sklearn(RandomForestRegressor(50, max_depth=8, random_state=0), x, value),
    of_sklearn(RandomForestClassifier(50, random_state=0), x, classes, **plain),
    of_sklearn(ExtraTreesClassifier(50, random_state=0), x, classes > 0, **plain),
    of_sklearn(GradientBoostingRegressor(random_state=0), x, value),
    of_sklearn(GradientBoostingClassifier(random_state=0), x, classes, **plain),
    of_sklearn(HistGradientBoostingRegressor(max_iter=40, random_state=0), gaps, value),
    of_sklearn(IsolationForest(n_estimators=30, random_state=0), x, None),
    of_sklearn(
        make_pipeline(StandardScaler(), RandomForestRegressor(20, random_state=0)), x, value
    ),
    of_boosters(convert_xgboost, xgboost.XGBRegressor(**boost), gaps, value),
    of_boosters(convert_xgboost, xgboost.XGBClassifier(**boost), gaps, classes > 0),
    of_boosters(convert_xgboost, xgboost.XGBClassifier(**boost), gaps, classes),
    of_boosters(convert_lightgbm, lightgbm.LGBMRegressor(n_estimators=40, verbose=-1), gaps, value),
    of_boosters(
        convert_lightgbm, lightgbm.LGBMClassifier(n_estimators=40, verbose=-1), gaps, classes
    ),
]


sessions = [
    onnxruntime.InferenceSession(f.SerializeToString(), providers=["CPUExecutionProvider"])
    for f in forests
]


def answer():
    found = []
    for session in sessions:
        (port,) = session.get_inputs()
        for rows in (1, 75):
            for result in session.run(None, {port.name: gaps[:rows]}):
                if isinstance(result, list):
                    result = [[float(v) for v in row.values()] for row in result]
                found.append(np.asarray(result).tolist())
    return found
