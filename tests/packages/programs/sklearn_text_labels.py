"""Labels, scores and numbers of pipelines of scikit-learn by skl2onnx, text among their inputs."""

import warnings

import numpy as np
import onnxruntime
from skl2onnx import convert_sklearn, to_onnx
from skl2onnx.common.data_types import FloatTensorType, StringTensorType
from sklearn.cluster import KMeans
from sklearn.compose import ColumnTransformer
from sklearn.decomposition import PCA, TruncatedSVD
from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression, Ridge, SGDClassifier
from sklearn.naive_bayes import MultinomialNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    KBinsDiscretizer,
    MinMaxScaler,
    OneHotEncoder,
    OrdinalEncoder,
    PolynomialFeatures,
    StandardScaler,
)
from sklearn.svm import SVC, SVR

warnings.simplefilter("ignore")
OPSET = {"": 17, "ai.onnx.ml": 3, "com.microsoft": 1}
rng = np.random.default_rng(0)
words = ["graph", "compiler", "kernel", "model", "cat", "dog", "mat", "fish", "the", "on", "a"]
subjects = rng.integers(0, 2, 120)
texts = np.array(
    [
        " ".join(rng.choice(words[:4] + words[8:] if s else words[4:], rng.integers(3, 12)))
        for s in subjects
    ]
)
x = rng.standard_normal((200, 6)).astype(np.float32)
gaps = x.copy()
gaps[rng.random(x.shape) < 0.1] = np.nan
value = (x[:, 0] * x[:, 1] + x[:, 2]).astype(np.float32)
classes = (value > 0).astype(np.int64) + (value > 1)
colours = rng.choice(["red", "green", "blue"], (200, 2))


# onnxruntime refuses the usual locale, en_US, where the system has none of that name.
LOCALE = {TfidfVectorizer: {"locale": "C"}, CountVectorizer: {"locale": "C"}}


def options_of(fitted):
    classifiers = {id(fitted): {"zipmap": False}} if hasattr(fitted, "classes_") else {}
    return LOCALE | classifiers


def convert_text(model):
    fitted = model.fit(texts, subjects)
    kinds = [("text", StringTensorType([None, 1]))]
    options = options_of(fitted)
    return convert_sklearn(fitted, initial_types=kinds, target_opset=OPSET, options=options)


def convert_numbers(model, data, target):
    fitted = model.fit(data, target)
    return to_onnx(fitted, data[:1], target_opset=OPSET, options=options_of(fitted))


mixed = make_pipeline(
    ColumnTransformer(
        [
            ("numbers", make_pipeline(SimpleImputer(), StandardScaler()), [0, 1]),
            ("colours", OneHotEncoder(), [2]),
            ("text", TfidfVectorizer(), 3),
        ]
    ),
    LogisticRegression(),
)
columns = np.empty((120, 4), object)
columns[:, :2], columns[:, 2], columns[:, 3] = x[:120, :2], colours[:120, 0], texts


def convert_columns():
    mixed.fit(columns, subjects)
    kinds = [("a", FloatTensorType([None, 2])), ("b", StringTensorType([None, 1]))]
    kinds.append(("c", StringTensorType([None, 1])))
    options = options_of(mixed)
    return convert_sklearn(mixed, initial_types=kinds, target_opset=OPSET, options=options)


text_models = {
    "tfidf": make_pipeline(TfidfVectorizer(), LogisticRegression()),
    "pairs": make_pipeline(CountVectorizer(ngram_range=(1, 2)), MultinomialNB()),
    "letters": make_pipeline(
        TfidfVectorizer(analyzer="char", ngram_range=(1, 3)), SGDClassifier(random_state=0)
    ),
    "svd": make_pipeline(TfidfVectorizer(sublinear_tf=True), TruncatedSVD(4, random_state=0)),
}
number_models = {
    "imputer": (
        make_pipeline(SimpleImputer(), StandardScaler(), LogisticRegression()),
        gaps,
        classes,
    ),
    "pca": (make_pipeline(StandardScaler(), PCA(3)), x, None),
    "kmeans": (KMeans(4, random_state=0, n_init=2), x, None),
    "neighbours": (KNeighborsClassifier(5), x, classes),
    "network": (MLPClassifier((16,), random_state=0, max_iter=60), x, classes),
    "svc": (SVC(probability=True, random_state=0), x, classes),
    "svr": (SVR(), x, value),
    "ridge": (make_pipeline(PolynomialFeatures(2), MinMaxScaler(), Ridge()), x, value),
    "bins": (KBinsDiscretizer(4, encode="ordinal"), x, None),
    "gaussian": (GaussianProcessRegressor(alpha=0.1), x[:60], value[:60]),
    "one-hot": (OneHotEncoder(sparse_output=False), colours, None),
    "ordinal": (OrdinalEncoder(), colours, None),
}
made = {name: (convert_text(m), {"text": texts[:, None]}) for name, m in text_models.items()}
for name, (model, data, target) in number_models.items():
    made[name] = convert_numbers(model, data, target), {"X": data}
parts = {"a": x[:120, :2], "b": colours[:120, :1], "c": texts[:, None]}
made["columns"] = convert_columns(), parts
sessions = {
    name: (
        onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"]),
        feeds,
    )
    for name, (model, feeds) in made.items()
}


def answer():
    found = {}
    for name, (session, feeds) in sessions.items():
        results = session.run(None, feeds)
        found[name] = [np.asarray(r).tolist() for r in results]
    return found
